// Request headers that only restate what the host does: it frames the message, manages the connection and names the server. Packages set them in
// Node, and browsers ignore them.

/** The server of a request. */
export interface HttpServer {
  readonly protocol: string;
  /** With the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: number;
}

/** Tells whether a Host header names the server of the request. */
function namesServer(value: string, { protocol, host, port }: HttpServer): boolean {
  const given = value.trim().toLowerCase();
  const isDefault = port === (protocol === "https:" ? 443 : 80);
  return given === `${host}:${port}`.toLowerCase() || (isDefault && given === host.toLowerCase());
}

const RESTATED: { readonly [name: string]: (value: string, server: HttpServer) => boolean } = {
  __proto__: null as never,
  host: namesServer,
  "content-length": (value) => /^\d+$/.test(value),
  "transfer-encoding": (value) => /^(?:chunked|identity)$/i.test(value),
  connection: (value) => /^(?:close|keep-alive)$/i.test(value),
  "proxy-connection": (value) => /^(?:close|keep-alive)$/i.test(value),
  "keep-alive": () => true,
  te: (value) => /^trailers$/i.test(value),
  expect: (value) => /^100-continue$/i.test(value),
};

/**
 * Tells whether a header only restates what the host does, so that it is not sent. With any other value the host denies the request: a Host header
 * must not name another server than the one that the egress rules allow.
 */
export const restatesHost = (name: string, value: string, server: HttpServer): boolean =>
  RESTATED[name.toLowerCase()]?.(value, server) === true;

/** Returns the server of an http or https URL. */
export function serverOf(href: string): HttpServer {
  const [, protocol = "", host = "", port] = /^(https?:)\/\/(.*?)(?::(\d+))?(?:[/?#]|$)/.exec(href) ?? [];
  return { protocol, host, port: port === undefined ? (protocol === "https:" ? 443 : 80) : Number(port) };
}
