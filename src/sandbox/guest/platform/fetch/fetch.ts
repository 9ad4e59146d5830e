// The Fetch standard for a guest: its classes, and `fetch` over the capability of that name. The host decides which requests are sent.
import { openFetchChannel } from "../../fetch-channel.ts";
import { addPlatformType } from "../../platform-types.ts";
import { restatesHost, serverOf } from "../http/restated-headers.ts";
import { Body, type BodySource } from "./fetch-body.ts";
import { readDataUrl } from "./fetch-data-url.ts";
import { Exchange, type FetchExchangeRequest, fetchError, type OpenedResponse } from "./fetch-exchange.ts";
import { formDataEntries } from "./fetch-form-data.ts";
import { headerListOf, isHeaders } from "./fetch-headers.ts";
import { blobs, digests, toBase64 } from "./fetch-platform.ts";
import { blockedPort } from "./fetch-ports.ts";
import { isRequest, Request, type RequestState, requestState, type Signal, toMethod } from "./fetch-request.ts";
import { isResponse, makeResponse, Response, settleBody } from "./fetch-response.ts";
import { parseUrl } from "./fetch-url.ts";
import type { Pair } from "./fetch-webidl.ts";

export { FormData } from "./fetch-form-data.ts";
export { Headers } from "./fetch-headers.ts";
export { Request, Response };

for (const isOurs of [isHeaders, isRequest, isResponse, (value: object) => formDataEntries(value) !== undefined]) {
  addPlatformType({ owns: (value) => typeof value === "object" && value !== null && isOurs(value) });
}

/** Returns the error of a fetch that sent no request. */
const failed = (reason: string, cause?: unknown): TypeError => fetchError("fetch failed", reason, cause);

function respondWithDataUrl({ method, url }: RequestState): Response {
  const { type, bytes } = readDataUrl(url.href);
  const body = method === "HEAD" ? null : Body.ofParts([bytes]);
  const headers = [["Content-Type", type]] as const;
  return makeResponse({ status: 200, statusText: "OK", headers, url: url.href, redirected: false }, body);
}

/** Responds with a blob of this tool, without a request to the host. */
function respondWithBlobUrl({ method, url }: RequestState): Response {
  const { blobBytes, resolveObjectURL } = blobs();
  const blob = resolveObjectURL(url.href);
  if (blob === undefined) throw failed("the URL does not refer to a blob");
  if (method !== "GET") throw failed("a blob URL supports the method GET only");
  const headers = [
    ["Content-Length", String(blob.size)],
    ["Content-Type", blob.type],
  ] as const;
  const body = Body.ofParts([blobBytes(blob).slice()]);
  return makeResponse({ status: 200, statusText: "OK", headers, url: url.href, redirected: false }, body);
}

async function fetchRequest(state: RequestState): Promise<Response> {
  const { followed, url } = state;
  if (followed?.aborted) {
    Promise.resolve(state.body?.take().cancel(followed.reason)).catch(() => {});
    throw followed.reason;
  }
  if (url.scheme === "data") {
    try {
      return respondWithDataUrl(state);
    } catch (cause) {
      throw failed((cause as Error).message, cause);
    }
  }
  if (url.scheme === "blob") return respondWithBlobUrl(state);
  return await openExchange({ ...state, headers: toWireHeaders(state) }).run();
}

/** Headers that the standard adds to every request. */
const DEFAULT_HEADERS = [
  ["accept", "*/*"],
  ["accept-language", "*"],
] as const;

function toWireHeaders({ headers, url }: RequestState): Pair<string>[] {
  const list = headerListOf(headers);
  const server = serverOf(url.href);
  const given = list.pairs().filter(([name, value]) => !restatesHost(name, value, server));
  return [...given, ...DEFAULT_HEADERS.filter(([name]) => !list.has(name))];
}

function openExchange(request: FetchExchangeRequest): Exchange {
  const { href, scheme } = request.url;
  if (scheme !== "http" && scheme !== "https") throw failed(`the scheme ${scheme} is not supported`);
  const port = blockedPort(href);
  if (port !== undefined) throw failed(`port ${port} is blocked by the Fetch standard`);
  return new Exchange(openFetchChannel(), request);
}

/** A request of node:http. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly Pair<string>[];
  /** The parts of the body, or the source of a body that is still being written. */
  readonly body: readonly Uint8Array[] | BodySource | null;
  readonly signal: Signal;
}

/**
 * Sends a request of node:http. It is subject to the same checks as a request of `fetch`, and never redirected.
 * @throws {TypeError | Error} the errors of `fetch`
 */
export async function sendHttpRequest({ method, url, headers, body, signal }: HttpRequest): Promise<OpenedResponse> {
  return await openExchange({
    method: toMethod(method),
    url: parseUrl(url),
    headers,
    redirect: "manual",
    body: body === null ? null : "next" in body ? Body.ofSource(body) : Body.ofParts(body),
    followed: signal,
  }).open();
}

/** Hashes of Subresource Integrity, from weakest to strongest. Only the strongest algorithm in the metadata is used. */
const INTEGRITY_ALGORITHMS = ["sha256", "sha384", "sha512"] as const;
const INTEGRITY_EXPRESSION = /^(sha256|sha384|sha512)-([A-Za-z0-9+/_-]+)={0,2}(?:\?.*)?$/i;

const toPlainBase64 = (base64: string): string => base64.replace(/[=]+$/, "").replaceAll("-", "+").replaceAll("_", "/");

/** Checks bytes against the hashes of a request. Ignores expressions that are not a known hash. Metadata without a known hash matches any bytes. */
async function matchesIntegrity(bytes: Uint8Array, metadata: string): Promise<boolean> {
  const expressions = metadata.split(/[\t\n\f\r ]+/).flatMap((word) => {
    const found = INTEGRITY_EXPRESSION.exec(word);
    if (found === null) return [];
    const [, algorithm = "", value = ""] = found;
    return [
      {
        rank: (INTEGRITY_ALGORITHMS as readonly string[]).indexOf(algorithm.toLowerCase()),
        value: toPlainBase64(value),
      },
    ];
  });
  if (expressions.length === 0) return true;
  const strongest = Math.max(...expressions.map(({ rank }) => rank));
  const name = (INTEGRITY_ALGORITHMS[strongest] as string).replace("sha", "SHA-");
  const digest = toPlainBase64(toBase64(new Uint8Array(await digests().digest(name, bytes))));
  return expressions.some(({ rank, value }) => rank === strongest && value === digest);
}

/** Checks the integrity of a response before the tool receives any of its bytes. */
async function check(response: Response, integrity: string): Promise<Response> {
  await settleBody(response, async (bytes) => {
    if (!(await matchesIntegrity(bytes, integrity))) throw failed("the response does not match the integrity metadata");
  });
  return response;
}

/** An exchange belongs to the call in which it starts, and ends with that call. */
export async function fetch(...args: readonly [input: unknown, init?: unknown]): Promise<Response> {
  const state = requestState(new Request(...args));
  const response = await fetchRequest(state);
  return state.integrity === "" ? response : await check(response, state.integrity);
}
