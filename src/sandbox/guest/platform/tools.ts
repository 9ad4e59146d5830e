// ctx.tools, the guest's side: ctx.tools.NAME(input) for whatever name; which of them there are, the host says. Bytes cross as base64
// beside the value, a mark in each one's place (src/host/json/binary-placeholders.ts).
import type { ToolCalls } from "../tool.ts";
import { fromBase64, toBase64 } from "./base64.ts";

type Ask = (input: object) => Promise<unknown>;
interface MarkedBytes {
  readonly mark: string;
  readonly parts: readonly string[];
}
interface Marked {
  readonly value: unknown;
  readonly bytes?: MarkedBytes;
}

/** Read by `await`, JSON.stringify and the like of any object: these are called by `call` alone. */
const NOT_NAMES: readonly string[] = ["then", "toJSON", "constructor", "toString", "valueOf"];

/** As JSON has it, with marks for bytes; a value that holds none is what it was. */
function markBytes(value: unknown): Marked {
  const mark = `bytes ${Math.random().toString(36).slice(2)} `;
  const parts: string[] = [];
  const text = JSON.stringify(value, function replace(this: Record<string, unknown>, key: string, item: unknown) {
    // What a Buffer's own toJSON made of it is no bytes any more.
    const own = this[key];
    const bytes = own instanceof ArrayBuffer ? new Uint8Array(own) : own;
    return bytes instanceof Uint8Array ? `${mark}${parts.push(toBase64(bytes)) - 1}` : item;
  });
  return parts.length === 0 ? { value } : { value: JSON.parse(text), bytes: { mark, parts } };
}

function unmarkBytes(value: unknown, { mark, parts }: MarkedBytes): unknown {
  if (typeof value === "string") {
    const part = value.startsWith(mark) ? parts[Number(value.slice(mark.length))] : undefined;
    return part === undefined ? value : fromBase64(part);
  }
  if (typeof value !== "object" || value === null) return value;
  for (const key of Object.keys(value)) {
    const holder = value as Record<string, unknown>;
    const replaced = unmarkBytes(holder[key], { mark, parts });
    if (replaced !== holder[key]) Object.defineProperty(holder, key, { value: replaced });
  }
  return value;
}

export function createMember(ask: Ask): ToolCalls {
  const call = async (name: string, input: unknown = {}): Promise<unknown> => {
    const { value, bytes } = markBytes(input);
    const answer = (await ask({ name: String(name), input: value, bytes })) as Marked;
    return answer.bytes === undefined ? answer.value : unmarkBytes(answer.value, answer.bytes);
  };
  const known = Object.freeze(Object.assign(Object.create(null) as object, { call }));
  return new Proxy(known, {
    get: (_known, key) => {
      if (key === "call") return call;
      if (typeof key !== "string" || NOT_NAMES.includes(key)) return undefined;
      return (input: unknown): Promise<unknown> => call(key, input);
    },
  }) as ToolCalls;
}
