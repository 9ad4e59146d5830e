// Bytes as base64 and back, for members of ctx whose values cross as JSON.

/** Node 24's V8 has none of its own. */
interface NativeBase64 {
  readonly prototype: { readonly toBase64?: (this: Uint8Array) => string };
  readonly fromBase64?: (text: string) => Uint8Array;
}
const native = Uint8Array as unknown as NativeBase64;
const { atob, btoa } = globalThis as unknown as Record<"atob" | "btoa", (text: string) => string>;
const SLICE = 8_192;

export function toBase64(bytes: Uint8Array): string {
  const { toBase64: encode } = native.prototype;
  if (encode !== undefined) return encode.call(bytes);
  let text = "";
  for (let at = 0; at < bytes.length; at += SLICE) text += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return native.fromBase64?.(text) ?? Uint8Array.from(atob(text), (unit) => unit.charCodeAt(0));
}
