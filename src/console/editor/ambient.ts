// Declarations of globals that the sandbox has and the web does not define, or defines with much that the sandbox lacks.

export const AMBIENT = `
declare function addEventListener(type: string, listener: (event: any) => void): void;
declare function removeEventListener(type: string, listener: (event: any) => void): void;
declare function dispatchEvent(event: Event): boolean;
declare function setImmediate<Args extends any[]>(callback: (...args: Args) => void, ...args: Args): object;
declare function clearImmediate(immediate: object | undefined): void;
declare var global: typeof globalThis;
declare var navigator: { readonly userAgent: string; readonly hardwareConcurrency: number; readonly language: string };
/** The process of the sandbox: it has no files, no arguments, and an empty environment. */
declare var process: {
  readonly env: { [name: string]: string | undefined };
  readonly platform: string;
  readonly version: string;
  readonly versions: { readonly [name: string]: string };
  cwd(): string;
  nextTick<Args extends any[]>(callback: (...args: Args) => void, ...args: Args): void;
  hrtime: { (time?: [number, number]): [number, number]; bigint(): bigint };
  uptime(): number;
  readonly [member: string]: any;
};
type BufferEncoding = "ascii" | "utf8" | "utf-8" | "utf16le" | "ucs2" | "base64" | "base64url" | "latin1" | "binary" | "hex";
/** Bytes, as in Node. */
interface Buffer extends Uint8Array<ArrayBuffer> {
  toString(encoding?: BufferEncoding, start?: number, end?: number): string;
  equals(other: Uint8Array): boolean;
  compare(other: Uint8Array): -1 | 0 | 1;
  copy(target: Uint8Array, targetStart?: number, sourceStart?: number, sourceEnd?: number): number;
  write(text: string, offset?: number, length?: number, encoding?: BufferEncoding): number;
  subarray(start?: number, end?: number): Buffer;
  slice(start?: number, end?: number): Buffer;
  toJSON(): { type: "Buffer"; data: number[] };
  readonly [member: string & {}]: any;
}
declare var Buffer: {
  from(text: string, encoding?: BufferEncoding): Buffer;
  from(data: Iterable<number> | ArrayLike<number> | ArrayBuffer, offset?: number, length?: number): Buffer;
  alloc(size: number, fill?: string | number | Uint8Array, encoding?: BufferEncoding): Buffer;
  allocUnsafe(size: number): Buffer;
  concat(list: readonly Uint8Array[], totalLength?: number): Buffer;
  byteLength(text: string | ArrayBuffer | ArrayBufferView, encoding?: BufferEncoding): number;
  isBuffer(value: unknown): value is Buffer;
  isEncoding(value: string): value is BufferEncoding;
  compare(one: Uint8Array, other: Uint8Array): -1 | 0 | 1;
  readonly prototype: Buffer;
};
`;
