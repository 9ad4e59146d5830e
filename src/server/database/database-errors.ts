// Classifies errors of SQLite and Postgres: an outage, a violated constraint, or a value that the database can never store.
import { ZodError } from "zod";
import { ToolError } from "../../host/index.ts";
import { isLostConnection } from "./open-database.ts";

/** What SQLite and Postgres say of an error. */
interface DatabaseError {
  readonly code?: unknown;
  readonly errcode?: unknown;
  readonly severity?: unknown;
}

/** The primary code of SQLite for constraints, and the class of Postgres's codes. */
const SQLITE_CONSTRAINT = 19;
const POSTGRES_CLASS = "23";

/** Primary codes of SQLite about values: TOOBIG, CONSTRAINT, MISMATCH and RANGE. The others concern the schema, the file or its locks. */
const SQLITE_REJECTED: ReadonlySet<number> = new Set([18, SQLITE_CONSTRAINT, 20, 25]);
/**
 * Classes of Postgres's codes that concern no value: connection, transaction state (a standby is read-only), rollback, schema, resources, locks,
 * intervention of the operator, and files.
 */
const POSTGRES_PASSING: ReadonlySet<string> = new Set(["08", "25", "40", "42", "53", "55", "57", "58"]);

/** Primary codes of SQLite for a file that cannot be used now: BUSY, LOCKED, IOERR, FULL and CANTOPEN. */
const SQLITE_OUTAGE: ReadonlySet<number> = new Set([5, 6, 10, 13, 14]);
/** Classes of Postgres's codes for the same: connection, resources, intervention of the operator, and files. */
const POSTGRES_OUTAGE: ReadonlySet<string> = new Set(["08", "53", "57", "58"]);

/** Returns whether a statement failed because the database cannot be used now: its disk is full, or it does not answer. */
export function isOutage(thrown: unknown): boolean {
  if (!Error.isError(thrown)) return false;
  const { code, errcode, severity } = thrown as DatabaseError;
  if (typeof errcode === "number") return SQLITE_OUTAGE.has(errcode & 0xff);
  if (typeof code === "string" && severity !== undefined) return POSTGRES_OUTAGE.has(code.slice(0, 2));
  return isLostConnection(thrown);
}

/** Returns whether a statement failed because of a constraint, such as a missing tenant or a taken id. */
export function violatesConstraint(thrown: unknown): boolean {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { code, errcode } = thrown as { readonly code?: unknown; readonly errcode?: unknown };
  if (typeof errcode === "number") return (errcode & 0xff) === SQLITE_CONSTRAINT;
  return typeof code === "string" && /^\w{5}$/.test(code) && code.startsWith(POSTGRES_CLASS);
}

/**
 * Returns whether a statement failed because of what it was to store, so that a repetition fails too. A lost connection, a busy database and a full
 * disk may pass.
 */
export function isPermanent(thrown: unknown): boolean {
  if (typeof thrown !== "object" || thrown === null) return true;
  const { code, errcode, severity } = thrown as DatabaseError;
  if (typeof errcode === "number") return SQLITE_REJECTED.has(errcode & 0xff);
  // Only what Postgres itself has answered has a severity. Errors of sockets have codes too, such as EPIPE.
  if (typeof code === "string" && severity !== undefined) return !POSTGRES_PASSING.has(code.slice(0, 2));
  // The driver reports a lost connection with a plain Error. A value that cannot be converted throws one of these.
  return [TypeError, RangeError, SyntaxError, ToolError, ZodError].some((type) => thrown instanceof type);
}
