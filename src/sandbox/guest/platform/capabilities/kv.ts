// ctx.kv on the guest's side: encodes values as JSON text or base64, and decodes them in the responses of the host.
import { warnAboutLost } from "../../lost-values.ts";
import type {
  ToolKv,
  ToolKvDeleteOptions,
  ToolKvEntry,
  ToolKvListOptions,
  ToolKvPage,
  ToolKvSetOptions,
  ToolKvSetResult,
} from "../../tool.ts";
import { fromBase64, toBase64 } from "../buffer/base64.ts";

type Ask = (input: object) => Promise<unknown>;
type WireValue = { readonly json: string } | { readonly bytes: string };
type WireEntry = Omit<ToolKvEntry, "value"> & WireValue;

function toWireValue(value: unknown): WireValue {
  if (value instanceof Uint8Array) return { bytes: toBase64(value) };
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined) throw new TypeError(`kv.set expected a JSON value or a Uint8Array, got ${typeof value}`);
  warnAboutLost("The value of kv.set", value, json);
  return { json };
}

const toValue = (wire: WireValue): unknown => ("json" in wire ? JSON.parse(wire.json) : fromBase64(wire.bytes));

function toEntry(wire: WireEntry): ToolKvEntry {
  const { key, version, expiresAt } = wire;
  return { key, value: toValue(wire), version, ...(expiresAt === undefined ? {} : { expiresAt }) };
}

export function createMember(ask: Ask): ToolKv {
  const getEntry = async (key: string): Promise<ToolKvEntry | undefined> => {
    const wire = (await ask({ op: "get", key })) as WireEntry | null;
    return wire === null ? undefined : toEntry(wire);
  };
  const kv = {
    getEntry,
    get: async (key: string): Promise<unknown> => (await getEntry(key))?.value,
    set: async (key: string, value: unknown, { ttlMs, ifVersion }: ToolKvSetOptions = {}): Promise<ToolKvSetResult> =>
      (await ask({ op: "set", key, value: toWireValue(value), ttlMs, ifVersion })) as ToolKvSetResult,
    delete: async (key: string, { ifVersion }: ToolKvDeleteOptions = {}): Promise<boolean> =>
      (await ask({ op: "delete", key, ifVersion })) as boolean,
    list: async ({ prefix, cursor, limit }: ToolKvListOptions = {}): Promise<ToolKvPage> => {
      const page = (await ask({ op: "list", prefix, cursor, limit })) as {
        readonly entries: readonly WireEntry[];
        readonly cursor?: string;
      };
      return { ...page, entries: page.entries.map(toEntry) };
    },
  };
  return Object.freeze(kv) as ToolKv;
}
