// ctx.tools on the guest's side: ctx.tools.NAME(input) for any name, and ctx.tools.A.B(input) for a name with a dot.
// The host decides which tools exist. Bytes cross as base64 attachments, with a placeholder in the value
// (src/host/json/binary-placeholders.ts).
import type { ToolCalls } from "../../tool.ts";
import { fromBase64, toBase64 } from "../buffer/base64.ts";

type Ask = (input: object) => Promise<unknown>;
interface PlaceholderBytes {
  readonly mark: string;
  readonly parts: readonly string[];
}
interface Marked {
  readonly value: unknown;
  readonly bytes?: PlaceholderBytes;
}

/** Properties that `await`, JSON.stringify and others read of any object. Tools with these names need `call`. */
const NOT_NAMES: readonly string[] = ["then", "toJSON", "constructor", "toString", "valueOf"];

/** Returns the value as JSON, with placeholders for bytes. A value without bytes is returned unchanged. */
function replaceBytes(value: unknown): Marked {
  const mark = `bytes ${Math.random().toString(36).slice(2)} `;
  const parts: string[] = [];
  const text = JSON.stringify(value, function replace(this: Record<string, unknown>, key: string, item: unknown) {
    // Read from the holder, because a Buffer's own toJSON has already converted `value`.
    const own = this[key];
    const bytes = own instanceof ArrayBuffer ? new Uint8Array(own) : own;
    return bytes instanceof Uint8Array ? `${mark}${parts.push(toBase64(bytes)) - 1}` : item;
  });
  return parts.length === 0 ? { value } : { value: JSON.parse(text), bytes: { mark, parts } };
}

function restoreBytes(value: unknown, { mark, parts }: PlaceholderBytes): unknown {
  if (typeof value === "string") {
    const part = value.startsWith(mark) ? parts[Number(value.slice(mark.length))] : undefined;
    return part === undefined ? value : fromBase64(part);
  }
  if (typeof value !== "object" || value === null) return value;
  for (const key of Object.keys(value)) {
    const holder = value as Record<string, unknown>;
    const replaced = restoreBytes(holder[key], { mark, parts });
    if (replaced !== holder[key]) Object.defineProperty(holder, key, { value: replaced });
  }
  return value;
}

export function createMember(ask: Ask): ToolCalls {
  const call = async (name: string, input: unknown = {}): Promise<unknown> => {
    const { value, bytes } = replaceBytes(input);
    const response = (await ask({ name: String(name), input: value, bytes })) as Marked;
    return response.bytes === undefined ? response.value : restoreBytes(response.value, response.bytes);
  };
  const known = Object.freeze(Object.assign(Object.create(null) as object, { call }));
  return new Proxy(known, {
    get: (_known, key) => {
      if (key === "call") return call;
      if (typeof key !== "string" || NOT_NAMES.includes(key)) return undefined;
      const tool = (input: unknown): Promise<unknown> => call(key, input);
      // `tools.server.name(input)` calls the tool `server.name`.
      return new Proxy(tool, {
        get: (target, inner) =>
          typeof inner !== "string" || inner in target || NOT_NAMES.includes(inner)
            ? Reflect.get(target, inner)
            : (input: unknown): Promise<unknown> => call(`${key}.${inner}`, input),
      });
    },
  }) as ToolCalls;
}
