// Tells a statement that the database can never accept from one that it could not take now.

/** The primary code of SQLite for constraints, and the class of Postgres's codes. */
const SQLITE_CONSTRAINT = 19;
const POSTGRES_CLASS = "23";

/** Returns whether a statement failed because of a constraint, such as a missing tenant or a taken id. */
export function violatesConstraint(thrown: unknown): boolean {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { code, errcode } = thrown as { readonly code?: unknown; readonly errcode?: unknown };
  if (typeof errcode === "number") return (errcode & 0xff) === SQLITE_CONSTRAINT;
  return typeof code === "string" && /^\w{5}$/.test(code) && code.startsWith(POSTGRES_CLASS);
}
