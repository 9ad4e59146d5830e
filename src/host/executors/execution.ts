// How an execution ended: what an executor hands to the router.
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import type { AttachmentReader } from "../contract/tool-value.ts";
import type { CpuAccount } from "../util/time-slicing.ts";

/** How an execution ended: `outputText` is JSON that nobody has looked at yet. */
export type Execution =
  | {
      readonly usage: ToolUsage;
      readonly outputText: string | Buffer;
      /** The bytes that belong into it. */
      readonly outputBytes?: AttachmentReader | undefined;
      /** How many bytes belong into its text and its content. */
      readonly besideBytes?: number | undefined;
      /** Its content, as JSON text of the same kind. */
      readonly content?: { readonly text: string | Buffer; readonly bytes?: AttachmentReader | undefined } | undefined;
      /** The chunks were the output: this one says nothing, and no schema is about it. */
      readonly isStreamed?: boolean;
      /** Whose host time it is that reading a large output takes. */
      readonly payer?: CpuAccount;
    }
  | {
      readonly usage: ToolUsage;
      readonly error: ToolError;
      /** The source itself has failed, not its tool: it could not be reached, did not answer in time, or broke. */
      readonly isSourceFailure?: boolean;
    };
