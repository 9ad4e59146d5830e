// Validates the response of the child in the parent. The child has read hostile source, so its response is untrusted.
import * as z from "zod";
import { type BuildResponse, MAX_PATH_LENGTH } from "./build-messages.ts";

const text = (maxLength: number) => z.string().max(maxLength);
const count = z.number().nonnegative();

const IssueSchema = z.strictObject({
  message: text(2_000),
  file: text(4_096).optional(),
  line: z.int().nonnegative().optional(),
  column: z.int().nonnegative().optional(),
  lineText: text(500).optional(),
  hint: text(4_096).optional(),
});

const DependencySchema = z.strictObject({
  path: text(MAX_PATH_LENGTH),
  owner: z.enum(["tool", "package"]),
  size: count,
  mtimeMs: z.number(),
  ctimeMs: z.number(),
  ino: count,
  sha256: text(64),
});

/** Maximum length of a list. It exceeds the limit on files, because one manifest per package folder is read without being counted. */
const MAX_LIST_LENGTH = 100_000;
const list = <Item extends z.ZodType>(item: Item) => z.array(item).max(MAX_LIST_LENGTH);

export const BuildResponseSchema: z.ZodType<BuildResponse> = z.discriminatedUnion("ok", [
  z.strictObject({
    ok: z.literal(true),
    code: z.string(),
    sourceMap: z.string(),
    exports: list(text(1_024)),
    inputs: list(z.strictObject({ path: text(MAX_PATH_LENGTH), bytes: count })),
    packages: list(text(1_024)),
    dynamicCode: list(text(4_096)),
    dependencies: list(DependencySchema),
    absent: list(text(MAX_PATH_LENGTH)),
  }),
  z.strictObject({ ok: z.literal(false), problems: z.array(IssueSchema).min(1).max(100) }),
]);
