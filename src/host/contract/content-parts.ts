// Validates the content parts of a result. They come from a guest, so unknown keys are rejected.
import { isUint8Array } from "node:util/types";
import * as z from "zod";
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { ToolValue } from "./tool-value.ts";

/** Maximum number of parts. No client shows more. */
const MAX_PARTS = 1_000;
const MAX_LISTED_ISSUES = 10;

const bytes = z.custom<Uint8Array>(isUint8Array, "Expected bytes: a Uint8Array");
const mimeType = z.string().min(1).max(256);
const uri = z.string().min(1).max(8_192);
const annotations = z
  .strictObject({
    audience: z
      .array(z.enum(["user", "assistant"]))
      .max(2)
      .optional(),
    priority: z.number().min(0).max(1).optional(),
    lastModified: z.iso.datetime({ offset: true }).optional(),
  })
  .optional();

const ContentPartSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: z.string(), annotations }),
  z.strictObject({ type: z.literal("image"), data: bytes, mimeType, annotations }),
  z.strictObject({ type: z.literal("audio"), data: bytes, mimeType, annotations }),
  z.strictObject({
    type: z.literal("resource"),
    resource: z.union([
      z.strictObject({ uri, mimeType: mimeType.optional(), text: z.string() }),
      z.strictObject({ uri, mimeType: mimeType.optional(), blob: bytes }),
    ]),
    annotations,
  }),
  z.strictObject({
    type: z.literal("resource_link"),
    uri,
    name: z.string().min(1).max(1_024),
    title: z.string().max(1_024).optional(),
    description: z.string().max(16_384).optional(),
    mimeType: mimeType.optional(),
    size: z.int().min(0).optional(),
    annotations,
  }),
]);

/** Counts the parts before they are parsed: zod would report each one of a million invalid parts. */
const ContentSchema = z
  .custom<unknown[]>(
    (value) => Array.isArray(value) && value.length <= MAX_PARTS,
    `Expected at most ${MAX_PARTS} parts`,
  )
  .pipe(z.array(ContentPartSchema));

/** @throws {ToolError} OUTPUT_INVALID; `details.problems` lists up to 10 issues */
export function parseContent(value: ToolValue, what: string): readonly ContentPart[] {
  const parsed = ContentSchema.safeParse(value);
  if (parsed.success) return parsed.data as readonly ContentPart[];
  const issues = parsed.error.issues
    .slice(0, MAX_LISTED_ISSUES)
    .map(({ path, message }) => ({ pointer: path.map((step) => `/${String(step)}`).join(""), message }));
  throw new ToolError("OUTPUT_INVALID", `${what}: ${formatIssues(issues)}`, { details: { problems: issues } });
}
