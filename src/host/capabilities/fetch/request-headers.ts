// Decides which headers a tool may send, and adds the host's. Only the host sets headers that frame the message or address proxies.
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import type { TraceContext } from "../../observability/telemetry/trace-context.ts";
import { denied } from "./egress-policy.ts";

export type HeaderList = readonly (readonly [name: string, value: string])[];

/** Reasons by header name in lower case. A name that ends in `-` or `:` forbids all headers with this prefix. */
const FORBIDDEN_HEADERS: { readonly [name: string]: string } = {
  host: "the host sets it from the URL",
  ":": "pseudo headers belong to the protocol",
  "content-length": "the host counts the body",
  "transfer-encoding": "the host frames the body",
  connection: "the host manages the connection",
  "keep-alive": "the host manages the connection",
  upgrade: "the host manages the connection",
  "http2-settings": "the host manages the connection",
  te: "the host frames the body",
  trailer: "the host frames the body",
  expect: "the host decides when to send the body",
  via: "it is for proxies",
  "proxy-": "it is for proxies",
};

const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/;
const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Bytes of all names and values together, with secrets inserted. */
export const MAX_HEADER_BYTES: number = 64 * 1024;

function reasonOf(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (Object.hasOwn(FORBIDDEN_HEADERS, lower)) return FORBIDDEN_HEADERS[lower];
  const family = Object.keys(FORBIDDEN_HEADERS).find((prefix) => /[-:]$/.test(prefix) && lower.startsWith(prefix));
  return family === undefined ? undefined : FORBIDDEN_HEADERS[family];
}

/** @throws {ToolError} CAPABILITY_DENIED for a header that only the host sets, and for an invalid name or value */
export function checkHeaders(headers: HeaderList): void {
  let bytes = 0;
  for (const [name, value] of headers) {
    bytes += name.length + value.length + 4;
    const shown = JSON.stringify(name.slice(0, 64));
    const reason = reasonOf(name);
    if (reason !== undefined) throw denied("headers", `a tool may not set ${shown}: ${reason}`);
    if (!TOKEN.test(name)) throw denied("headers", `${shown} is not a valid header name`);
    if (INVALID_VALUE.test(value)) throw denied("headers", `the value of ${shown} contains invalid characters`);
  }
  if (bytes > MAX_HEADER_BYTES) throw tooManyHeaderBytes();
}

export const tooManyHeaderBytes = (): ToolError =>
  denied(
    "headers",
    `the headers have more than ${MAX_HEADER_BYTES} bytes in total, with the values of secrets inserted`,
  );

/** Returns the first value of a header. @param name in lower case */
export function headerOf(headers: HeaderList, name: string): string | undefined {
  return headers.find(([each]) => each.toLowerCase() === name)?.[1];
}

/** Headers that the host adds unless the tool sets them. */
const DEFAULT_HEADERS: HeaderList = [
  ["accept", "*/*"],
  ["accept-encoding", "gzip, deflate, br, zstd"],
  ["user-agent", "glovebox"],
];
export const withDefaults = (headers: HeaderList): HeaderList => [
  ...headers,
  ...DEFAULT_HEADERS.filter(([name]) => headerOf(headers, name) === undefined),
];

export const withoutHeaders = (headers: HeaderList, isDropped: (name: string, value: string) => boolean): HeaderList =>
  headers.filter(([name, value]) => !isDropped(name.toLowerCase(), value));

/** Returns the headers of the trace that a request belongs to. */
export const traceHeaders = ({ traceparent, tracestate }: TraceContext = {}): HeaderList =>
  traceparent === undefined
    ? []
    : [["traceparent", traceparent], ...(tracestate === undefined ? [] : [["tracestate", tracestate] as const])];

/** Replaces the trace headers of the tool with those of the host, if there are any. */
export const withTrace = (headers: HeaderList, trace: HeaderList): HeaderList =>
  trace.length === 0
    ? headers
    : [...withoutHeaders(headers, (name) => name === "traceparent" || name === "tracestate"), ...trace];
