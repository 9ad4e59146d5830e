// Defines a call whose client waits for it, and what the client gets.
import type { OpenDatabase } from "../../database/open-database.ts";
import { findParts, withContents } from "../../records/calls/call-contents.ts";
import type { CallRow, WholeCall } from "../../records/calls/calls.ts";
import type { CallCaller, CallRequest } from "../call-request.ts";
import type { StreamSink } from "./journaled-call-runner.ts";

/** A call, with what receives its events while it runs, if anything does. */
export interface DirectCall {
  /** The row that the call will have. */
  readonly row: CallRow;
  readonly request: CallRequest;
  readonly caller: CallCaller;
  /** Default: the caller gets the result only. */
  readonly sink?: StreamSink | undefined;
}

/** The answer that a caller gets: the record of a call that has ended, or the row of one that waits for an approval. */
export type DirectAnswer = { readonly ended: WholeCall } | { readonly waiting: CallRow };

/** Returns a row with what another table has of it. */
export const wholeCall = async ({ db }: Pick<OpenDatabase, "db">, row: CallRow): Promise<WholeCall> => ({
  ...(await withContents(db, row)),
  parts: await findParts(db, row),
});
