// Types of packages that platform modules bundle and that have none.
declare module "tr46" {
  interface Options {
    readonly useSTD3ASCIIRules?: boolean;
    readonly verifyDNSLength?: boolean;
    readonly checkHyphens?: boolean;
  }
  export function toASCII(domain: string, options: Options): string | null;
}

declare module "punycode/punycode.js" {
  const punycode: { toASCII(domain: string): string; toUnicode(domain: string): string };
  export default punycode;
}

declare module "whatwg-url/lib/URL-impl.js" {
  export class implementation {
    constructor(globalObject: object, args: readonly [url: string, base?: string]);
  }
}

declare module "url/" {
  export const Url: unknown;
  export const parse: unknown;
  export const resolve: unknown;
  export const resolveObject: unknown;
  export function format(url: unknown): string;
}

declare module "readable-stream" {
  type Done = (error?: Error | null, data?: unknown) => void;
  class Stream {
    on(name: string | symbol, listener: (...args: never[]) => unknown): this;
    once(name: string | symbol, listener: (...args: never[]) => unknown): this;
    emit(name: string | symbol, ...args: unknown[]): boolean;
    listenerCount(name: string | symbol): number;
    removeAllListeners(name?: string | symbol): this;
  }
  class Readable extends Stream {
    constructor(options?: object);
    static from(source: Iterable<unknown> | AsyncIterable<unknown>): Readable;
    readonly errored: Error | null;
    readonly readableEnded: boolean;
    _construct(done: Done): void;
    _read(size: number): void;
    _destroy(error: Error | null, done: Done): void;
    push(chunk: unknown): boolean;
    pause(): this;
    resume(): this;
    readonly destroyed: boolean;
    destroy(error?: Error): this;
  }
  class Writable extends Stream {
    constructor(options?: object);
    _construct(done: Done): void;
    _write(chunk: unknown, encoding: string, done: Done): void;
    _final(done: Done): void;
    _destroy(error: Error | null, done: Done): void;
    readonly writableEnded: boolean;
    readonly writableFinished: boolean;
    write(chunk: unknown, done?: Done): boolean;
    end(done?: () => void): this;
    readonly destroyed: boolean;
    destroy(error?: unknown): this;
  }
  class Duplex extends Readable {
    write(chunk: unknown, done?: Done): boolean;
    end(done?: () => void): this;
  }
  class Transform extends Duplex {
    _transform(chunk: unknown, encoding: string, done: Done): void;
    _flush(done: Done): void;
  }
  class PassThrough extends Transform {}
  const finished: unknown;
  const pipeline: unknown;

  export { Duplex, finished, PassThrough, pipeline, Readable, Stream, Transform, Writable };
}
