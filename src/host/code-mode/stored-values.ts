// Values that outlive a run of code: `result.save` stores them in the Glovebox's key-value store, so that data need not pass through the
// model. Each conversation of a tenant has values of its own, which are bounded and expire.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { callOf } from "../capabilities/call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "../capabilities/capability.ts";
import type { KvEntry, KvSpace, KvStore } from "../capabilities/kv/kv-store.ts";
import { readDeleteOutcome, readEntry, readPage, readSetOutcome } from "../capabilities/kv/store-answers.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { PendingByKey } from "../util/pending-by-key.ts";
import { toVisibleText } from "../util/visible-text.ts";
import type { StoredValueBounds } from "./options.ts";

/** What a model receives for a stored value. */
export type ValueReference = {
  readonly saved: string;
  readonly type: string;
  readonly bytes: number;
  readonly preview: string;
  readonly expiresInMs: number;
};

/** A value in a list. */
interface ListedValue {
  readonly name: string;
  readonly type: string;
  readonly bytes: number;
}

/** The conversation whose values are read and written. */
export interface ValueScope {
  readonly tenantId: string;
  /** `context.sessionId` of the run; empty for runs without one. */
  readonly conversation: string;
}

const NAME = /^[\w.-]{1,64}$/;
const NAME_RULE = "expected a name of 1 to 64 of A-Z a-z 0-9 _ . -";
const PREVIEW_LENGTH = 200;
const PAGE_BYTES = 16 * 1024 * 1024;

/** Returns a short description of a type: `array of 12`, `object with id, name`. */
function typeOf(value: JsonValue): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `array of ${value.length}`;
  if (typeof value !== "object") return typeof value;
  const keys = Object.keys(value);
  const shown = keys.slice(0, 10).map((key) => toVisibleText(key.slice(0, 40)));
  return `object with ${shown.join(", ")}${keys.length > shown.length ? ", …" : ""}`;
}

/** Largest value that is parsed for a list, in bytes. A run may list 100 values of 1 MiB a thousand times. */
const MAX_DESCRIBED_BYTES = 8 * 1024;
const OPEN_BRACKET = 91;
const OPEN_BRACE = 123;

/** Describes the type of a stored value: of a large one, only whether it is an array, an object or a string. */
function typeOfStored({ data }: KvEntry): string {
  if (data.byteLength <= MAX_DESCRIBED_BYTES) return typeOf(JSON.parse(Buffer.from(data).toString()) as JsonValue);
  if (data[0] === OPEN_BRACKET) return "array";
  return data[0] === OPEN_BRACE ? "object" : "string";
}

/** The values were within the limits of a call when they were saved. */
const STORED_LIMITS = { bytes: LIMITS.outputBytes.max, depth: LIMITS.jsonDepth.max, values: LIMITS.jsonValues.max };
const STORED_CODES = { invalid: "INTERNAL", tooLarge: "INTERNAL" } as const;

/** Parses a stored value, a large one in time slices. */
async function parseStored({ data }: KvEntry, name: string, { signal }: CapabilityContext): Promise<JsonValue> {
  const text = Buffer.from(data);
  const what = `The saved value "${name}"`;
  return isSmallJson(text)
    ? parseSmallJson(text.toString(), STORED_LIMITS, STORED_CODES, what)
    : await parseLargeText(text, STORED_LIMITS, STORED_CODES, what, signal);
}

export interface StoredValuesDependencies {
  readonly store: KvStore;
  readonly bounds: StoredValueBounds;
  /** Tracks operations, so that the deletion of a tenant waits for them. */
  readonly pending: PendingByKey;
}

export class StoredValues {
  readonly #store: KvStore;
  readonly #bounds: StoredValueBounds;
  readonly #pending: PendingByKey;

  constructor({ store, bounds, pending }: StoredValuesDependencies) {
    this.#store = store;
    this.#bounds = bounds;
    this.#pending = pending;
  }

  /** A space for each conversation, so that its quota counts its own values only. */
  #spaceOf({ tenantId, conversation }: ValueScope): KvSpace {
    return { tenantId, tool: `tenant/code-mode ${JSON.stringify(conversation)}` };
  }

  /** @throws {ToolError} PARAM_INVALID for another name; QUOTA_EXCEEDED if the value does not fit */
  async save(scope: ValueScope, name: unknown, value: JsonValue): Promise<ValueReference> {
    const { maxValues, maxBytes, maxValueBytes, ttlMs } = this.#bounds;
    const data = Buffer.from(JSON.stringify(value));
    if (data.byteLength > maxValueBytes) {
      const message = `A saved value can have at most ${maxValueBytes} bytes, got ${data.byteLength} (storedValues.maxValueBytes)`;
      throw new ToolError("QUOTA_EXCEEDED", message);
    }
    const write = {
      kind: "json" as const,
      data,
      expiresAt: Date.now() + ttlMs,
      quota: { keys: maxValues, bytes: maxBytes },
    };
    const key = checkName(name);
    const stored = this.#pending.track(scope.tenantId, this.#store.set(this.#spaceOf(scope), key, write));
    const outcome = readSetOutcome(await stored);
    if (outcome.status === "full") {
      const limit = outcome.exceeded === "keys" ? "maxValues" : "maxBytes";
      const message = `The saved values of a conversation can have ${write.quota[outcome.exceeded]} ${outcome.exceeded} (storedValues.${limit}); delete some with result.delete(name)`;
      throw new ToolError("QUOTA_EXCEEDED", message);
    }
    const text = data.toString();
    const preview =
      text.length <= PREVIEW_LENGTH ? text : `${text.slice(0, PREVIEW_LENGTH).replace(/[\uD800-\uDBFF]$/, "")}…`;
    return { saved: key, type: typeOf(value), bytes: data.byteLength, preview, expiresInMs: ttlMs };
  }

  /** @throws {ToolError} PARAM_INVALID if there is no value of this name */
  async load(scope: ValueScope, name: unknown, context: CapabilityContext): Promise<JsonValue> {
    const key = checkName(name);
    const entry = readEntry(await this.#store.get(this.#spaceOf(scope), key), key);
    if (entry !== undefined) return await parseStored(entry, key, context);
    const known = (await this.list(scope, 20)).map((one) => one.name);
    const message = `There is no saved value named "${key}". It may have expired. Saved: ${known.join(", ") || "none"}`;
    throw new ToolError("PARAM_INVALID", message);
  }

  /** Reads the values in pages, of which only the descriptions are kept. */
  async list(scope: ValueScope, limit: number = Math.max(1, this.#bounds.maxValues)): Promise<readonly ListedValue[]> {
    const listed: ListedValue[] = [];
    let after: string | undefined;
    let isDone = false;
    while (!isDone) {
      const options = { prefix: "", after, limit: limit - listed.length, bytes: PAGE_BYTES };
      const { entries, more } = readPage(await this.#store.list(this.#spaceOf(scope), options), options);
      for (const entry of entries)
        listed.push({ name: entry.key, type: typeOfStored(entry), bytes: entry.data.byteLength });
      after = entries.at(-1)?.key;
      isDone = !more || after === undefined || listed.length >= limit;
    }
    return listed;
  }

  async delete(scope: ValueScope, name: unknown): Promise<boolean> {
    const key = checkName(name);
    const deleted = this.#pending.track(scope.tenantId, this.#store.delete(this.#spaceOf(scope), key));
    return readDeleteOutcome(await deleted).status === "deleted";
  }
}

function checkName(name: unknown): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  throw new ToolError("PARAM_INVALID", `The name of a saved value: ${NAME_RULE}`);
}

/** Returns the conversation of a run. */
export const scopeOf = (context: CapabilityContext): ValueScope => ({
  tenantId: context.tenantId,
  conversation: callOf(context).context.sessionId ?? "",
});

const RequestSchema = z.strictObject({
  op: z.enum(["save", "load", "list", "delete"]),
  // The broker has parsed them as JSON, so that their values need no second check.
  args: z.array(z.unknown()).max(2).default([]),
});

/** Creates the capability behind `result.save(name, value)`, `load`, `list` and `delete`. */
export function createResultCapability(values: StoredValues): Capability {
  return defineCapability({
    name: "result",
    description: "Stores values that later code of the same conversation can load",
    members: ["save", "load", "list", "delete"],
    inputSchema: RequestSchema,
    outputSchema: z.unknown(),
    handler: async ({ op, args: [name, value] }, context) => {
      const scope = scopeOf(context);
      if (op === "save") return await values.save(scope, name, (value ?? null) as JsonValue);
      if (op === "load") return await values.load(scope, name, context);
      return op === "list" ? await values.list(scope) : await values.delete(scope, name);
    },
  });
}
