// Schemas of free text in requests. A NUL, which Postgres does not store, and half of a surrogate pair, which no database stores, are rejected here
// and with them the other control characters, which forge lines where a text is shown.
import { z } from "@hono/zod-openapi";

const LINE = /^[^\p{Cc}\p{Cs}]*$/u;

const LINES = /^(?:[^\p{Cc}\p{Cs}]|[\t\n\r])*$/u;

/** Text in one line, such as a name. */
export const LineSchema = z.string().refine((text) => LINE.test(text), {
  error: "Expected text without control characters and lone surrogates",
});

/** Text in several lines, such as a reason. */
export const TextSchema = z.string().refine((text) => LINES.test(text), {
  error: "Expected text without lone surrogates and control characters other than tabs and line breaks",
});
