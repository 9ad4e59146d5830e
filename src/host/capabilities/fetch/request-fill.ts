// Inserts the values of secrets into a request's URL, headers and body. A value may be much longer than its placeholder, so limits apply
// to the filled request, and are checked before more of it is kept. Long texts are filled over several turns of the event loop.
import { Readable } from "node:stream";
import type { SecretLiteralSet } from "../../observability/redaction/secret-literal.ts";
import { filteredParts, runSteps, StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";
import { denied } from "./egress-policy.ts";
import { checkRequestBytes } from "./request-body.ts";
import { type HeaderList, headerOf, MAX_HEADER_BYTES, tooManyHeaderBytes, withDefaults } from "./request-headers.ts";
import type { CallSecrets, SecretEncoding } from "./secrets.ts";

/** Longest path and query of a request, with secrets inserted. Most servers accept 8 to 16 KiB. */
const MAX_URL_BYTES = 64 * 1024;

/** Comparisons of a byte with a placeholder that one request runs in one turn of the event loop: about 1 ms. Further ones are time-sliced. */
const MAX_SYNC_COMPARISONS = 128 * 1024;
/** Longest filled body that is kept in memory. A longer one is filled a second time while it is sent. */
const KEPT_BODY_BYTES = 64 * 1024;

/** Returns the encoding of secrets in a body, by its content type. */
function encodingOf(headers: HeaderList): SecretEncoding {
  const type = (headerOf(headers, "content-type") ?? "").toLowerCase();
  if (/^application\/(?:[\w.+-]+\+)?json\b|^text\/json\b/.test(type)) return "json";
  return type.startsWith("application/x-www-form-urlencoded") ? "url" : "plain";
}

/** A body to send: in memory, or as a stream whose bytes were counted before. */
type FilledBody = { readonly body: Buffer } | { readonly body: Readable; readonly bytes: number };

/** Inserts the values of secrets into one request. */
export class RequestFiller {
  readonly #secrets: CallSecrets;
  readonly #url: URL;
  readonly #turns: Turns;
  readonly #replacements = new Map<SecretEncoding, SecretLiteralSet>();
  #comparisons = 0;

  constructor(secrets: CallSecrets, url: URL, turns: Turns) {
    this.#secrets = secrets;
    this.#url = url;
    this.#turns = turns;
  }

  /** @throws {ToolError} CAPABILITY_DENIED if the text contains a placeholder */
  async checkFree(text: string, where: string): Promise<void> {
    if (!(await this.hasPlaceholder(text))) return;
    throw denied("secrets", `placeholders are allowed in header values, the query and the body, not in ${where}`);
  }

  /** Tells whether the text contains a placeholder, escaped or not. */
  async hasPlaceholder(text: string): Promise<boolean> {
    const literals = this.#secrets.placeholders;
    if (literals.isEmpty || text === "") return false;
    const filter = new StreamFilter(literals);
    await this.#run(filter, Buffer.from(text), () => {});
    return filter.replaced > 0;
  }

  /** Returns the path and query as they are sent. @throws {ToolError} CAPABILITY_DENIED */
  async path(): Promise<string> {
    const { host, pathname, href } = this.#url;
    // An empty query is sent, too: `search` is empty for "/path?", and a signature may cover it.
    const search = this.#url.search || (/^[^#]*\?(?:#|$)/.test(href) ? "?" : "");
    const max = MAX_URL_BYTES - pathname.length;
    const tooLong = (): Error =>
      denied("url", `the path and query have more than ${MAX_URL_BYTES} bytes once secrets are filled in`);
    if (search.length > max) throw tooLong();
    await this.checkFree(`${host}${pathname}`, "a URL's host or path");
    return pathname + (await this.#text(search, "url", max, tooLong));
  }

  /** Returns the headers as they are sent, with those that the host adds. @throws {ToolError} CAPABILITY_DENIED */
  async headers(headers: HeaderList): Promise<HeaderList> {
    // One search for all names, since no name contains a line break.
    await this.checkFree(headers.map(([name]) => name).join("\n"), "a header's name");
    const filled: (readonly [string, string])[] = [];
    let left = MAX_HEADER_BYTES;
    for (const [name, value] of withDefaults(headers)) {
      const written = await this.#header(name, value, left);
      left -= written.length;
      filled.push([name, written]);
    }
    return filled;
  }

  async #header(name: string, value: string, max: number): Promise<string> {
    const basic = name.toLowerCase() === "authorization" ? /^(basic +)([A-Za-z0-9+/=]+)$/i.exec(value) : null;
    if (basic === null) return await this.#text(value, "plain", max, tooManyHeaderBytes);
    const [, scheme = "", credentials = ""] = basic;
    const decoded = Buffer.from(credentials, "base64").toString();
    const filled = await this.#text(decoded, "plain", max, tooManyHeaderBytes);
    return filled === decoded ? value : scheme + Buffer.from(filled).toString("base64");
  }

  /** Fills a body. @throws {ToolError} QUOTA_EXCEEDED if the filled body has more than `most` bytes */
  async body(body: Buffer, headers: HeaderList, max: number): Promise<FilledBody> {
    const literals = this.#replacementsOf(encodingOf(headers));
    if (literals.isEmpty) return { body };
    const filter = new StreamFilter(literals);
    let kept: Buffer[] | undefined = [];
    let bytes = 0;
    await runSteps(
      filter.wholeSteps(body),
      (part) => {
        bytes += part.length;
        checkRequestBytes(bytes, max);
        if (bytes <= KEPT_BODY_BYTES) kept?.push(part);
        else kept = undefined;
      },
      this.#turns,
    );
    if (filter.replaced === 0) return { body };
    return kept === undefined ? { body: this.#sent(body, literals), bytes } : { body: Buffer.concat(kept) };
  }

  /** Returns a filter that fills a streamed body. */
  stream(headers: HeaderList): StreamFilter {
    return new StreamFilter(this.#replacementsOf(encodingOf(headers)));
  }

  /** Returns a stream that fills the body a second time. It yields the bytes that were counted, without holding all of them in memory. */
  #sent(body: Buffer, literals: SecretLiteralSet): Readable {
    const steps = new StreamFilter(literals).wholeSteps(body);
    const stream = Readable.from(filteredParts(steps, this.#turns), { objectMode: false });
    // The exchange receives a failure from the connection.
    return stream.on("error", () => {});
  }

  async #text(text: string, encoding: SecretEncoding, max: number, tooLong: () => Error): Promise<string> {
    const literals = this.#replacementsOf(encoding);
    if (literals.isEmpty || text === "") return text;
    const filter = new StreamFilter(literals);
    const parts: Buffer[] = [];
    let bytes = 0;
    await this.#run(filter, Buffer.from(text), (part) => {
      bytes += part.length;
      if (bytes > max) throw tooLong();
      parts.push(part);
    });
    return filter.replaced === 0 ? text : Buffer.concat(parts).toString();
  }

  #replacementsOf(encoding: SecretEncoding): SecretLiteralSet {
    const literals = this.#replacements.get(encoding) ?? this.#secrets.replacements(this.#url, encoding);
    this.#replacements.set(encoding, literals);
    return literals;
  }

  /** Runs synchronously up to {@link MAX_SYNC_COMPARISONS}, since most requests have a few short headers. */
  async #run(filter: StreamFilter, bytes: Buffer, take: (part: Buffer) => void): Promise<void> {
    const steps = filter.wholeSteps(bytes);
    this.#comparisons += filter.costOf(bytes.length);
    if (this.#comparisons > MAX_SYNC_COMPARISONS) return await runSteps(steps, take, this.#turns);
    for (const part of steps) take(part);
  }
}
