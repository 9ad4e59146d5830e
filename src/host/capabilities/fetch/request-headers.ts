// Which headers a tool may send. Those that frame the message, or speak to proxies, are the host's alone.
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import type { TraceContext } from "../../observability/telemetry/trace-context.ts";
import { denied } from "./egress-policy.ts";

export type HeaderList = readonly (readonly [name: string, value: string])[];

/** By name in lower case, with why. A name that ends in `-` stands for all that begin with it. */
const FORBIDDEN_HEADERS: { readonly [name: string]: string } = {
  host: "it is the URL's own",
  ":": "pseudo headers are the protocol's own",
  "content-length": "the host counts the body",
  "transfer-encoding": "the host frames the body",
  connection: "the connection is the host's",
  "keep-alive": "the connection is the host's",
  upgrade: "the connection is the host's",
  "http2-settings": "the connection is the host's",
  te: "the host frames the body",
  trailer: "the host frames the body",
  expect: "the host sends the body when it likes",
  via: "it is for proxies",
  "proxy-": "it is for proxies",
};

const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Names and values together, with the values of secrets in them. */
export const MAX_HEADER_BYTES: number = 64 * 1024;

function reasonOf(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (Object.hasOwn(FORBIDDEN_HEADERS, lower)) return FORBIDDEN_HEADERS[lower];
  const family = Object.keys(FORBIDDEN_HEADERS).find((prefix) => /[-:]$/.test(prefix) && lower.startsWith(prefix));
  return family === undefined ? undefined : FORBIDDEN_HEADERS[family];
}

/** @throws {ToolError} CAPABILITY_DENIED for a header that is the host's, or that no header is */
export function checkHeaders(headers: HeaderList): void {
  let bytes = 0;
  for (const [name, value] of headers) {
    bytes += name.length + value.length + 4;
    const shown = JSON.stringify(name.slice(0, 64));
    const reason = reasonOf(name);
    if (reason !== undefined) throw denied("headers", `a tool may not set ${shown}: ${reason}`);
    if (!TOKEN.test(name)) throw denied("headers", `${shown} is no header's name`);
    if (NO_VALUE.test(value)) throw denied("headers", `the value of ${shown} has characters that no header may have`);
  }
  if (bytes > MAX_HEADER_BYTES) throw tooManyHeaderBytes();
}

export const tooManyHeaderBytes = (): ToolError =>
  denied(
    "headers",
    `all headers together have more than ${MAX_HEADER_BYTES} bytes, with the values of secrets in them`,
  );

export function headerOf(headers: HeaderList, name: string): string | undefined {
  return headers.find(([each]) => each.toLowerCase() === name)?.[1];
}

/** What the host adds where the tool has said nothing. */
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

/** Of the trace that a request is part of, in the place of what the tool itself says. */
export const traceHeaders = ({ traceparent, tracestate }: TraceContext = {}): HeaderList =>
  traceparent === undefined
    ? []
    : [["traceparent", traceparent], ...(tracestate === undefined ? [] : [["tracestate", tracestate] as const])];

export const withTrace = (headers: HeaderList, trace: HeaderList): HeaderList =>
  trace.length === 0
    ? headers
    : [...withoutHeaders(headers, (name) => name === "traceparent" || name === "tracestate"), ...trace];
