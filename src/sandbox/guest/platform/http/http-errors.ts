// Errors of node:http with Node's codes. The code of a network failure is the one that fetch reports.
import { nodeError } from "../shared/node-error.ts";

/** Numbers of the errors on Linux, as in `error.errno`. */
const ERRNO: { readonly [code: string]: number } = {
  ECONNREFUSED: -111,
  ECONNRESET: -104,
  EHOSTUNREACH: -113,
  ENOTFOUND: -3008,
  ETIMEDOUT: -110,
  EAI_AGAIN: -3001,
  EAI_FAIL: -3004,
};
const CONNECT_CODES = ["ECONNREFUSED", "EHOSTUNREACH"];
const LOOKUP_CODES = ["ENOTFOUND", "EAI_AGAIN", "EAI_FAIL"];
/** Codes of undici for the times that Node's http has no limit for. */
const TIMEOUT_CODES = ["ETIMEDOUT", "UND_ERR_CONNECT_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"];
const RESET_CODES = ["ECONNRESET", "UND_ERR_SOCKET"];

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Creates the error of a connection that ended too early: "socket hang up" before the response, "aborted" in it. */
export const connectionReset = (message: string, cause?: unknown): Error =>
  Object.assign(new Error(message, cause === undefined ? {} : { cause }), { code: "ECONNRESET" });

/** Creates the error of a request whose signal aborted. */
export function abortError(cause: unknown): Error {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  error.name = "AbortError";
  return Object.assign(error, cause === undefined ? {} : { cause });
}

/** Creates the error of a host name that cannot exist. */
export const nameNotFound = (host: string): Error => lookupError("ENOTFOUND", host);

function lookupError(code: string, hostname: string, cause?: unknown): Error {
  const details = { errno: ERRNO[code], code, syscall: "getaddrinfo", hostname };
  return Object.assign(new Error(`getaddrinfo ${code} ${hostname}`, { cause }), details);
}

function connectError(code: string, { host, port }: HostPort, cause: unknown): Error {
  const details = { errno: ERRNO[code], code, syscall: "connect", address: host, port };
  return Object.assign(new Error(`connect ${code} ${host}:${port}`, { cause }), details);
}

/** Returns the cause of a network failure of fetch, with Node's code. */
function networkCause(thrown: unknown): { readonly code: string; readonly message: string } | undefined {
  const cause = thrown instanceof TypeError ? thrown.cause : undefined;
  if (!(cause instanceof Error) || cause.name === "CapabilityError") return undefined;
  const { code, message } = cause as Error & { readonly code?: unknown };
  return typeof code === "string" ? { code, message } : undefined;
}

/** Tells whether the server closed the connection. */
export const isReset = (thrown: unknown): boolean => RESET_CODES.includes(networkCause(thrown)?.code ?? "");

/** Converts an error of fetch. Errors of the host's policy and of a missing grant are returned unchanged. */
export function toNodeError(thrown: unknown, target: HostPort): unknown {
  const network = networkCause(thrown);
  if (network === undefined) return thrown;
  const { code, message } = network;
  if (CONNECT_CODES.includes(code)) return connectError(code, target, thrown);
  if (LOOKUP_CODES.includes(code)) return lookupError(code, target.host, thrown);
  if (TIMEOUT_CODES.includes(code)) {
    return Object.assign(new Error(message, { cause: thrown }), { errno: ERRNO.ETIMEDOUT, code: "ETIMEDOUT" });
  }
  return Object.assign(new Error(message, { cause: thrown }), { code });
}
