// Declares the globals of the sandbox for the type checker, as far as programs of models use them. Neither the DOM's nor Node's types are
// loaded: they would declare much that the sandbox does not have.

export const GUEST_GLOBALS = `
interface Console { log(...values: any[]): void; debug(...values: any[]): void; info(...values: any[]): void; warn(...values: any[]): void;
  error(...values: any[]): void; trace(...values: any[]): void; table(value?: any, columns?: readonly string[]): void; dir(value?: any, options?: object): void;
  dirxml(...values: any[]): void; assert(condition?: any, ...values: any[]): void; time(label?: string): void; timeEnd(label?: string): void;
  timeLog(label?: string, ...values: any[]): void; count(label?: string): void; countReset(label?: string): void; group(...values: any[]): void;
  groupCollapsed(...values: any[]): void; groupEnd(): void; clear(): void; }
declare const console: Console;
declare namespace NodeJS { type Timeout = number & { ref(): Timeout; unref(): Timeout; hasRef(): boolean; refresh(): Timeout; close(): Timeout };
  type Timer = Timeout; type Immediate = Timeout; }
declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): NodeJS.Timeout;
declare function clearTimeout(timer: NodeJS.Timeout | number | string | undefined): void;
declare function setInterval(callback: (...args: any[]) => void, ms?: number, ...args: any[]): NodeJS.Timeout;
declare function clearInterval(timer: NodeJS.Timeout | number | string | undefined): void;
declare function setImmediate(callback: (...args: any[]) => void, ...args: any[]): NodeJS.Timeout;
declare function clearImmediate(timer: NodeJS.Timeout | number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T, options?: { transfer?: any[] }): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare class URLSearchParams { constructor(init?: string | string[][] | Record<string, string> | URLSearchParams); append(name: string, value: string): void;
  delete(name: string): void; get(name: string): string | null; getAll(name: string): string[]; has(name: string): boolean; set(name: string, value: string): void;
  sort(): void; toString(): string; keys(): IterableIterator<string>; values(): IterableIterator<string>; entries(): IterableIterator<[string, string]>;
  forEach(callback: (value: string, key: string) => void): void; readonly size: number; [Symbol.iterator](): IterableIterator<[string, string]>; }
declare class URL { constructor(url: string | URL, base?: string | URL); hash: string; host: string; hostname: string; href: string; readonly origin: string;
  password: string; pathname: string; port: string; protocol: string; search: string; readonly searchParams: URLSearchParams; username: string;
  toString(): string; toJSON(): string; static canParse(url: string, base?: string): boolean; static parse(url: string, base?: string): URL | null; }
declare class TextEncoder { encode(text?: string): Uint8Array; readonly encoding: string; }
declare class TextDecoder { constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }); decode(bytes?: ArrayBufferView | ArrayBuffer): string; }
declare class Event { constructor(type: string, init?: object); readonly type: string; }
declare class CustomEvent extends Event { constructor(type: string, init?: { detail?: any }); readonly detail: any; }
declare class EventTarget { addEventListener(type: string, listener: (event: any) => void, options?: any): void;
  removeEventListener(type: string, listener: (event: any) => void): void; dispatchEvent(event: Event): boolean; }
declare class AbortSignal extends EventTarget { readonly aborted: boolean; readonly reason: any; throwIfAborted(): void;
  static abort(reason?: any): AbortSignal; static timeout(ms: number): AbortSignal; static any(signals: AbortSignal[]): AbortSignal; }
declare class AbortController { readonly signal: AbortSignal; abort(reason?: any): void; }
declare class DOMException extends Error { constructor(message?: string, name?: string); readonly code: number; }
declare class Blob { constructor(parts?: any[], options?: { type?: string }); readonly size: number; readonly type: string; text(): Promise<string>;
  arrayBuffer(): Promise<ArrayBuffer>; slice(start?: number, end?: number, type?: string): Blob; }
declare class File extends Blob { constructor(parts: any[], name: string, options?: { type?: string; lastModified?: number }); readonly name: string;
  readonly lastModified: number; }
declare class FormData { append(name: string, value: any, filename?: string): void; delete(name: string): void; get(name: string): any;
  getAll(name: string): any[]; has(name: string): boolean; set(name: string, value: any, filename?: string): void;
  entries(): IterableIterator<[string, any]>; [Symbol.iterator](): IterableIterator<[string, any]>; }
declare class ReadableStream<T = any> { constructor(source?: any, strategy?: any); static from(source: any): ReadableStream; readonly locked: boolean;
  cancel(reason?: any): Promise<void>; getReader(options?: any): any; pipeThrough(pair: any, options?: any): ReadableStream;
  pipeTo(target: any, options?: any): Promise<void>; tee(): [ReadableStream<T>, ReadableStream<T>]; [Symbol.asyncIterator](): AsyncIterableIterator<T>; }
declare class WritableStream { constructor(sink?: any, strategy?: any); readonly locked: boolean; getWriter(): any; close(): Promise<void>; abort(reason?: any): Promise<void>; }
declare class TransformStream { constructor(transformer?: any, writable?: any, readable?: any); readonly readable: ReadableStream; readonly writable: WritableStream; }
declare class CompressionStream extends TransformStream { constructor(format: string); }
declare class DecompressionStream extends TransformStream { constructor(format: string); }
declare class TextEncoderStream extends TransformStream { constructor(); }
declare class TextDecoderStream extends TransformStream { constructor(label?: string, options?: object); }
declare class URLPattern { constructor(input?: any, base?: any, options?: any); test(input?: any, base?: string): boolean; exec(input?: any, base?: string): any; }
declare class Headers { constructor(init?: any); get(name: string): string | null; set(name: string, value: string): void; has(name: string): boolean;
  append(name: string, value: string): void; delete(name: string): void; forEach(callback: (value: string, name: string) => void): void;
  [Symbol.iterator](): IterableIterator<[string, string]>; }
declare class Response { constructor(body?: any, init?: any); readonly ok: boolean; readonly status: number; readonly statusText: string; readonly url: string;
  readonly headers: Headers; readonly redirected: boolean; json(): Promise<any>; text(): Promise<string>; arrayBuffer(): Promise<ArrayBuffer>; blob(): Promise<Blob>; }
declare class Request { constructor(url: any, init?: any); readonly url: string; readonly method: string; readonly headers: Headers;
  json(): Promise<any>; text(): Promise<string>; arrayBuffer(): Promise<ArrayBuffer>; blob(): Promise<Blob>; clone(): Request; }
declare function fetch(url: string | URL | Request, init?: { method?: string; headers?: any; body?: any; signal?: AbortSignal; redirect?: string }): Promise<Response>;
declare const crypto: { randomUUID(): string; getRandomValues<T extends ArrayBufferView>(array: T): T; readonly subtle: any; };
declare const performance: { now(): number; readonly timeOrigin: number; };
declare const Buffer: { from(value: any, encoding?: string): Uint8Array & { toString(encoding?: string): string }; concat(list: Uint8Array[]): Uint8Array & { toString(encoding?: string): string };
  byteLength(text: string): number; alloc(size: number): Uint8Array & { toString(encoding?: string): string }; };
`;
