// ctx.kv, the guest's side: values become text or base64 on their way out, and what they were on their way back.
import type { KvDeleteOptions, KvEntry, KvListOptions, KvPage, KvSetOptions, KvSetResult, ToolKv } from "../tool.ts";

type Ask = (input: object) => Promise<unknown>;
type WireValue = { readonly json: string } | { readonly bytes: string };
type WireEntry = Omit<KvEntry, "value"> & WireValue;

/** Node 24's V8 has no base64 of its own. */
interface Base64Bytes {
  readonly prototype: { readonly toBase64?: (this: Uint8Array) => string };
  readonly fromBase64?: (text: string) => Uint8Array;
}
const { atob, btoa } = globalThis as unknown as Record<"atob" | "btoa", (text: string) => string>;
const Bytes = Uint8Array as unknown as Base64Bytes;
const SLICE = 8_192;

function toBase64(bytes: Uint8Array): string {
  const native = Bytes.prototype.toBase64;
  if (native !== undefined) return native.call(bytes);
  let text = "";
  for (let at = 0; at < bytes.length; at += SLICE) text += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  return Bytes.fromBase64?.(text) ?? Uint8Array.from(atob(text), (unit) => unit.charCodeAt(0));
}

function toWireValue(value: unknown): WireValue {
  if (value instanceof Uint8Array) return { bytes: toBase64(value) };
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined) throw new TypeError(`kv.set expected a JSON value or a Uint8Array, got ${typeof value}`);
  return { json };
}

const toValue = (wire: WireValue): unknown => ("json" in wire ? JSON.parse(wire.json) : fromBase64(wire.bytes));

function toEntry(wire: WireEntry): KvEntry {
  const { key, version, expiresAt } = wire;
  return { key, value: toValue(wire), version, ...(expiresAt === undefined ? {} : { expiresAt }) };
}

export function createMember(ask: Ask): ToolKv {
  const getEntry = async (key: string): Promise<KvEntry | undefined> => {
    const wire = (await ask({ op: "get", key })) as WireEntry | null;
    return wire === null ? undefined : toEntry(wire);
  };
  const kv = {
    getEntry,
    get: async (key: string): Promise<unknown> => (await getEntry(key))?.value,
    set: async (key: string, value: unknown, { ttlMs, ifVersion }: KvSetOptions = {}): Promise<KvSetResult> =>
      (await ask({ op: "set", key, value: toWireValue(value), ttlMs, ifVersion })) as KvSetResult,
    delete: async (key: string, { ifVersion }: KvDeleteOptions = {}): Promise<boolean> =>
      (await ask({ op: "delete", key, ifVersion })) as boolean,
    list: async ({ prefix, cursor, limit }: KvListOptions = {}): Promise<KvPage> => {
      const page = (await ask({ op: "list", prefix, cursor, limit })) as {
        readonly entries: readonly WireEntry[];
        readonly cursor?: string;
      };
      return { ...page, entries: page.entries.map(toEntry) };
    },
  };
  return Object.freeze(kv) as ToolKv;
}
