// OutgoingMessage of node:http: the headers of a request, or of a response that a package constructs.
import { adoptable } from "../shared/callable-classes.ts";
import { invalidArgument, nodeError, unsupported } from "../shared/node-error.ts";
import { Writable } from "../streams/node-stream.ts";
import { type Headers, validateHeaderName, validateHeaderValue } from "./http-headers.ts";

export class OutgoingMessage extends adoptable(Writable) {
  /** By name in lower case. */
  readonly #headers = new Map<string, readonly [name: string, value: unknown]>();
  /** Packages that implement a response set `finished`. */
  #isMarkedFinished = false;
  headersSent = false;
  sendDate = true;

  #checkUnsent(action: string): void {
    if (!this.headersSent) return;
    const message = `Cannot ${action} headers after they are sent to the client`;
    throw nodeError(Error, "ERR_HTTP_HEADERS_SENT", message);
  }

  setHeader(name: string, value: unknown): this {
    this.#checkUnsent("set");
    validateHeaderName(name);
    validateHeaderValue(name, value);
    this.#headers.set(name.toLowerCase(), [name, value]);
    return this;
  }

  appendHeader(name: string, value: unknown): this {
    this.#checkUnsent("append");
    validateHeaderName(name);
    validateHeaderValue(name, value);
    const known = this.#headers.get(name.toLowerCase());
    if (known === undefined) return this.setHeader(name, value);
    this.#headers.set(name.toLowerCase(), [known[0], [known[1], value].flat()]);
    return this;
  }

  setHeaders(
    headers: Iterable<readonly [string, unknown]> & { readonly get?: unknown; readonly keys?: unknown },
  ): this {
    this.#checkUnsent("set");
    const isMap = typeof headers?.get === "function" && typeof headers.keys === "function";
    if (!isMap) throw invalidArgument("headers", "an instance of Headers or Map", headers);
    const cookies: unknown[] = [];
    for (const [name, value] of headers) {
      if (name === "set-cookie") cookies.push(...[value].flat());
      else this.setHeader(name, value);
    }
    return cookies.length > 0 ? this.setHeader("set-cookie", cookies) : this;
  }

  getHeader(name: string): unknown {
    return this.#headers.get(nameOf(name))?.[1];
  }
  hasHeader(name: string): boolean {
    return this.#headers.has(nameOf(name));
  }
  removeHeader(name: string): void {
    const key = nameOf(name);
    this.#checkUnsent("remove");
    this.#headers.delete(key);
  }
  getHeaderNames(): string[] {
    return [...this.#headers.keys()];
  }
  getRawHeaderNames(): string[] {
    return [...this.#headers.values()].map(([name]) => name);
  }
  getHeaders(): Headers {
    const values = [...this.#headers].map(([key, [, value]]) => [key, value] as const);
    return Object.assign(Object.create(null), Object.fromEntries(values)) as Headers;
  }

  /** The headers as they were set. */
  protected givenHeaders(): Iterable<readonly [string, unknown]> {
    return this.#headers.values();
  }

  /** Text of the headers once they are sent, by Node's name. Packages check whether it exists. */
  get _header(): string | null {
    if (!this.headersSent) return null;
    const lines = [...this.#headers.values()].map(([name, value]) => `${name}: ${String(value)}\r\n`);
    return `${lines.join("")}\r\n`;
  }
  get _headerSent(): boolean {
    return this.headersSent;
  }
  get finished(): boolean {
    return this.#isMarkedFinished || this.writableEnded;
  }
  set finished(isFinished: boolean) {
    this.#isMarkedFinished = isFinished;
  }

  addTrailers(): void {
    throw unsupported("OutgoingMessage.addTrailers()", "fetch sends no trailers; send a header");
  }
  flushHeaders(): void {}
  setTimeout(_ms: unknown, _callback?: unknown): this {
    return this;
  }
}

function nameOf(name: unknown): string {
  if (typeof name !== "string") throw invalidArgument("name", "of type string", name);
  return name.toLowerCase();
}
