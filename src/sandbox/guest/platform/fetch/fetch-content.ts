// Both ends of the Body mixin: creates a body from a value by its type, and defines the methods that read a body.

import { bytesOf } from "../shared/webidl.ts";
import type { ReadableStream, ReadableStreamDefaultController } from "../streams/streams.ts";
import { Body, type BodySource, readAll } from "./fetch-body.ts";
import { FormData, formDataEntries, isBlob } from "./fetch-form-data.ts";
import { type Headers, headerListOf } from "./fetch-headers.ts";
import { extractMimeType, serializeMimeType } from "./fetch-mime.ts";
import { encodeMultipart, parseMultipart } from "./fetch-multipart.ts";
import { type Blob, blobs, type Stream, streams, urls } from "./fetch-platform.ts";
import { decodeUtf8, encodeUtf8, makeDecoder } from "./fetch-utf8.ts";
import { tagOf, toUsvString } from "./fetch-webidl.ts";

export interface Extracted {
  readonly body: Body;
  /** Default value of Content-Type. */
  readonly type: string | undefined;
}

const known = (parts: readonly Uint8Array[], type?: string): Extracted => ({ body: Body.ofParts(parts), type });

function extractStream(stream: Stream): Extracted {
  const body = Body.ofStream(stream);
  if (body.isUnusable) throw new TypeError("The stream given as a body has been read from already, or is locked");
  return { body, type: undefined };
}

/** Extension of Node: the body may be an async iterable of chunks. */
function extractIterable(iterable: AsyncIterable<unknown>): Extracted {
  const iterator = iterable[Symbol.asyncIterator]();
  const source: BodySource = {
    next: async () => {
      const { done, value } = await iterator.next();
      if (done) return undefined;
      if (typeof value === "string") return encodeUtf8(value);
      if (value instanceof Uint8Array) return value.slice();
      throw new TypeError(`Expected the chunks of a body to be Uint8Arrays, got ${typeof value}`);
    },
    cancel: async (reason) => {
      await iterator.return?.(reason);
    },
  };
  return { body: Body.ofSource(source), type: undefined };
}

/** Implements the standard's "extract a body". The caller handles null, which means no body. */
export function extractBody(value: unknown): Extracted {
  if (typeof value === "object" && value !== null) {
    const bytes = bytesOf(value);
    if (bytes !== undefined) return known([bytes.slice()]);
    const entries = formDataEntries(value);
    if (entries !== undefined) {
      const { parts, boundary } = encodeMultipart(entries);
      return known(parts, `multipart/form-data; boundary=${boundary}`);
    }
    if (isBlob(value)) return known([blobs().blobBytes(value)], value.type === "" ? undefined : value.type);
    const tag = tagOf(value);
    if (tag === "URLSearchParams" && value instanceof urls().URLSearchParams) {
      return known([encodeUtf8(`${value as never}`)], "application/x-www-form-urlencoded;charset=UTF-8");
    }
    if (tag === "ReadableStream" && value instanceof streams().ReadableStream) return extractStream(value);
    if (Symbol.asyncIterator in value) return extractIterable(value as AsyncIterable<unknown>);
  }
  return known([encodeUtf8(toUsvString(value))], "text/plain;charset=UTF-8");
}

const EMPTY = new Uint8Array(0);

/** First half of each reading method: takes the body, or throws. */
async function take(body: Body | null): Promise<Uint8Array<ArrayBuffer>> {
  return body === null ? EMPTY : await readAll(body.take());
}

const readText = async (body: Body | null): Promise<string> => decodeUtf8(await take(body));
const readJson = async (body: Body | null): Promise<unknown> => JSON.parse(decodeUtf8(await take(body)));

/** Streams the decoded text. A character is never split between two pieces. */
function toTextStream(body: Body | null): ReadableStream<string> {
  const source = body?.take();
  const decoder = makeDecoder();
  const pull = async (controller: ReadableStreamDefaultController<string>): Promise<void> => {
    for (let text = ""; text === ""; ) {
      const bytes = await source?.next();
      text = bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
      if (text !== "") controller.enqueue(text);
      if (bytes !== undefined) continue;
      controller.close();
      return;
    }
  };
  return new (streams().ReadableStream)({ pull, cancel: (reason) => source?.cancel(reason) }, { highWaterMark: 0 });
}

async function readBytes(body: Body | null): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await take(body);
  return bytes === EMPTY ? new Uint8Array(0) : bytes;
}

async function readBlob(body: Body | null, contentType: () => string | null): Promise<Blob> {
  const bytes = await take(body);
  const type = extractMimeType(contentType());
  return new (blobs().Blob)([bytes], { type: type === undefined ? "" : serializeMimeType(type) });
}

function parseUrlEncoded(text: string): FormData {
  const form = new FormData();
  for (const [name, value] of new (urls().URLSearchParams)(text)) form.append(name, value);
  return form;
}

async function readFormData(body: Body | null, contentType: () => string | null): Promise<FormData> {
  const bytes = await take(body);
  const type = extractMimeType(contentType());
  if (type?.essence === "multipart/form-data") return parseMultipart(bytes, type.parameters.get("boundary"));
  if (type?.essence === "application/x-www-form-urlencoded")
    return parseUrlEncoded(decodeUtf8(bytes, { keepsMark: true }));
  const got = type === undefined ? "no type" : type.essence;
  throw new TypeError(`formData: expected multipart/form-data or application/x-www-form-urlencoded, got ${got}`);
}

/** The reading methods of Request and Response (Fetch standard, "Body mixin"). */
export interface BodyMembers {
  arrayBuffer(): Promise<ArrayBuffer>;
  blob(): Promise<Blob>;
  bytes(): Promise<Uint8Array>;
  formData(): Promise<FormData>;
  json(): Promise<unknown>;
  text(): Promise<string>;
  textStream(): ReadableStream<string>;
}

/**
 * Defines the reading methods on the prototype of Request or Response.
 * @param stateOf returns the body and headers of an object; throws a TypeError for an object of another class
 */
export function defineBodyMembers<Owner extends object>(
  prototype: Owner,
  stateOf: (owner: Owner) => { readonly body: Body | null; readonly headers: Headers },
): void {
  const members: BodyMembers & ThisType<Owner> = {
    async arrayBuffer() {
      return (await readBytes(stateOf(this).body)).buffer;
    },
    async blob() {
      const { body, headers } = stateOf(this);
      return await readBlob(body, () => headerListOf(headers).get("content-type"));
    },
    async bytes() {
      return await readBytes(stateOf(this).body);
    },
    async formData() {
      const { body, headers } = stateOf(this);
      return await readFormData(body, () => headerListOf(headers).get("content-type"));
    },
    async json() {
      return await readJson(stateOf(this).body);
    },
    async text() {
      return await readText(stateOf(this).body);
    },
    textStream() {
      return toTextStream(stateOf(this).body);
    },
  };
  Object.defineProperties(prototype, Object.getOwnPropertyDescriptors(members));
}
