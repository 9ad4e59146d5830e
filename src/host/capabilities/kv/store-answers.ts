// Validates the answers of a KvStore, which may be implemented by the host: an invalid answer fails the operation, and is not taken for
// "no entry" or "stored".
import { types } from "node:util";
import * as z from "zod";
import type { KvDeleteOutcome, KvDeletion, KvEntry, KvPage, KvSetOutcome, KvTenantEntry } from "./kv-store.ts";

const MAX_VERSION_LENGTH = 256;

const VersionSchema = z.string().max(MAX_VERSION_LENGTH);
const EntrySchema = z.object({
  key: z.string(),
  kind: z.enum(["json", "bytes"]),
  data: z.custom<Uint8Array>((value) => types.isUint8Array(value), "Expected a Uint8Array"),
  version: VersionSchema,
  expiresAt: z.number().optional(),
});
const SetOutcomeSchema = z.discriminatedUnion("status", [
  z.object({ status: z.literal("stored"), version: VersionSchema }),
  z.object({ status: z.literal("conflict"), version: VersionSchema.nullable() }),
  z.object({ status: z.literal("full"), exceeded: z.enum(["keys", "bytes"]), needed: z.number() }),
]);
const DeleteOutcomeSchema = z.object({ status: z.enum(["deleted", "missing", "conflict"]) });
const TenantEntrySchema = EntrySchema.extend({
  tool: z.string().regex(/^(?:tenant|global)\//, "Expected tenant/NAME or global/NAME"),
});
const DeletionSchema = z.object({ keys: z.number().min(0), bytes: z.number().min(0) });
const PageSchema = z.object({ entries: z.array(EntrySchema), more: z.boolean() });

/** @throws {TypeError} with the method and the invalid field */
function read<Schema extends z.ZodType>(schema: Schema, answer: unknown, method: string): z.infer<Schema> {
  const { data, error } = schema.safeParse(answer);
  if (error === undefined) return data as z.infer<Schema>;
  const [issue] = error.issues;
  const path = issue?.path.map(String).join(".") ?? "";
  throw invalid(method, `${path === "" ? "" : `${path}: `}${issue?.message ?? "wrong type"}`);
}

const invalid = (method: string, why: string): TypeError =>
  new TypeError(`The kv store returned an invalid answer from ${method}(): ${why}`);

/** @throws {TypeError} also for an entry with another key */
export function readEntry(answer: unknown, key: string): KvEntry | undefined {
  if (answer === undefined) return undefined;
  const entry = read(EntrySchema, answer, "get");
  if (entry.key !== key) throw invalid("get", "key: Expected the requested key");
  return entry;
}

/** @throws {TypeError} */
export const readSetOutcome = (answer: unknown): KvSetOutcome => read(SetOutcomeSchema, answer, "set");

/** @throws {TypeError} */
export const readDeleteOutcome = (answer: unknown): KvDeleteOutcome => read(DeleteOutcomeSchema, answer, "delete");

/** @throws {TypeError} */
export const readDeletion = (answer: unknown): KvDeletion => read(DeletionSchema, answer, "deleteTenant");

/** @throws {TypeError} */
export const readTenantEntry = (answer: unknown): KvTenantEntry => read(TenantEntrySchema, answer, "entries");

/** @throws {TypeError} also for more entries than requested, and for keys without the prefix */
export function readPage(
  answer: unknown,
  { prefix, limit }: { readonly prefix: string; readonly limit: number },
): KvPage {
  const page = read(PageSchema, answer, "list");
  if (page.entries.length > limit) throw invalid("list", `entries: Expected at most ${limit}`);
  const stray = page.entries.findIndex(({ key }) => !key.startsWith(prefix));
  if (stray >= 0) throw invalid("list", `entries.${stray}.key: Expected a key with the requested prefix`);
  return page;
}
