// Capability kv: a tool stores values between its calls, separately for each tenant. Keys, sizes and requests are validated here; a KvStore
// stores the entries and enforces the quota.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { PreparedCall } from "../../pipeline/prepared-call.ts";
import type { PendingByKey } from "../../util/pending-by-key.ts";
import { callOf, useOf } from "../call-scope.ts";
import { type Capability, defineCapability } from "../capability.ts";
import type { KvEntry, KvSpace, KvStore, KvWrite } from "./kv-store.ts";
import { readDeleteOutcome, readEntry, readPage, readSetOutcome } from "./store-answers.ts";

/** The same limit as in Cloudflare KV and Deno KV. */
const MAX_PAGE = 1_000;
const DEFAULT_PAGE = 100;
const MAX_KEY_BYTES = 1_024;
const MAX_TTL_MS = 10 * 365 * 24 * 3_600_000;
/** Share of `limits.outputBytes` for the values of a page. Escaping can double a value's size in JSON, and entries have other fields. */
const PAGE_SHARE = 0.4;

const isKey = (key: string): boolean => key.isWellFormed() && Buffer.byteLength(key) <= MAX_KEY_BYTES;
const KEY_RULE = `Expected a well-formed string of at most ${MAX_KEY_BYTES} bytes in UTF-8`;
const PrefixSchema = z.string().refine(isKey, KEY_RULE);
const KeySchema = PrefixSchema.min(1);
const VersionSchema = z.string().max(256);

/** Requests of the guest (src/sandbox/guest/platform/capabilities/kv.ts). A value is JSON text, or bytes in base64. */
const RequestSchema = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("get"), key: KeySchema }),
  z.strictObject({
    op: z.literal("set"),
    key: KeySchema,
    value: z.union([z.strictObject({ json: z.string() }), z.strictObject({ bytes: z.base64() })]),
    ttlMs: z.int().min(1).max(MAX_TTL_MS).optional(),
    ifVersion: VersionSchema.nullable().optional(),
  }),
  z.strictObject({ op: z.literal("delete"), key: KeySchema, ifVersion: VersionSchema.optional() }),
  z.strictObject({
    op: z.literal("list"),
    prefix: PrefixSchema.default(""),
    cursor: KeySchema.optional(),
    limit: z.int().min(1).max(MAX_PAGE).default(DEFAULT_PAGE),
  }),
]);
type Request = z.infer<typeof RequestSchema>;
type SetRequest = Extract<Request, { readonly op: "set" }>;

/**
 * Returns the space of a call. A tenant's tool and a global tool of the same name have different spaces. Otherwise a tenant could read what
 * a global tool stores for it, by adding a tool of that name.
 */
const spaceOf = ({ tenantId, toolTenantId, definition }: PreparedCall): KvSpace => ({
  tenantId,
  tool: `${toolTenantId === undefined ? "global" : "tenant"}/${definition.name}`,
});

function toWire({ key, kind, data, version, expiresAt }: KvEntry): object {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return {
    key,
    ...(kind === "json" ? { json: bytes.toString() } : { bytes: bytes.toString("base64") }),
    version,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}

function toWrite({ value, ttlMs, ifVersion }: SetRequest, { limits }: PreparedCall): KvWrite {
  const data = "json" in value ? Buffer.from(value.json) : Buffer.from(value.bytes, "base64");
  if (data.byteLength > limits.kvValueBytes) {
    throw new ToolError(
      "QUOTA_EXCEEDED",
      `A value in kv can have at most ${limits.kvValueBytes} bytes, got ${data.byteLength} (limits.kvValueBytes)`,
      { details: { limit: "kvValueBytes", allowed: limits.kvValueBytes, needed: data.byteLength } },
    );
  }
  return {
    kind: "json" in value ? "json" : "bytes",
    data,
    quota: { keys: limits.kvKeys, bytes: limits.kvBytes },
    ...(ttlMs === undefined ? {} : { expiresAt: Date.now() + ttlMs }),
    ...(ifVersion === undefined ? {} : { ifVersion }),
  };
}

const QUOTA_LIMITS = { keys: "kvKeys", bytes: "kvBytes" } as const;

async function set(store: KvStore, request: SetRequest, call: PreparedCall): Promise<object> {
  const outcome = readSetOutcome(await store.set(spaceOf(call), request.key, toWrite(request, call)));
  if (outcome.status === "stored") return { ok: true, version: outcome.version };
  if (outcome.status === "conflict") return { ok: false, version: outcome.version };
  const { exceeded, needed } = outcome;
  const limit = QUOTA_LIMITS[exceeded];
  const allowed = call.limits[limit];
  throw new ToolError(
    "QUOTA_EXCEEDED",
    `kv can store ${allowed} ${exceeded} per tenant for ${call.definition.name}, but this entry needs ${needed} (limits.${limit})`,
    { details: { limit, allowed, needed } },
  );
}

async function answer(store: KvStore, request: Request, call: PreparedCall): Promise<unknown> {
  const space = spaceOf(call);
  switch (request.op) {
    case "get": {
      const entry = readEntry(await store.get(space, request.key), request.key);
      return entry === undefined ? null : toWire(entry);
    }
    case "set":
      return await set(store, request, call);
    case "delete": {
      const { status } = readDeleteOutcome(await store.delete(space, request.key, request.ifVersion));
      return status === "deleted";
    }
    case "list": {
      const { prefix, cursor, limit } = request;
      const bytes = Math.floor(call.limits.outputBytes * PAGE_SHARE);
      const page = await store.list(space, { prefix, after: cursor, limit, bytes });
      const { entries, more } = readPage(page, { prefix, limit });
      const last = entries.at(-1);
      return { entries: entries.map(toWire), ...(more && last !== undefined ? { cursor: last.key } : {}) };
    }
  }
}

/** @param pending tracks each operation until the store has settled it, which may be after the end of a cancelled call */
export function createKvCapability(store: KvStore, pending: PendingByKey): Capability {
  const capability = defineCapability({
    name: "kv",
    description: "Stores values between calls, separately for each tenant and tool",
    inputSchema: RequestSchema,
    outputSchema: z.unknown(),
    handler: (request, context) => {
      const call = callOf(context);
      const { op } = request;
      useOf(context)?.describe({ operation: op, ...("key" in request ? { target: request.key } : {}) });
      return pending.track(call.tenantId, answer(store, request, call));
    },
  });
  return { ...capability, platformModule: "kv" };
}
