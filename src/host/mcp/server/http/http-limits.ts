// Declares the limits of the MCP server over HTTP: numbers of requests and bytes for one caller and for all callers together, and timeouts.
import * as z from "zod";
import { strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { CallerQuota } from "./caller-quota.ts";

const MiB = 1_024 * 1_024;

/** A limit for each caller, one for the callers of each tenant, and one for all callers together. */
export interface SharedLimit {
  readonly perCaller?: number | undefined;
  /** @default half of `total`, but at least `perCaller`; for a handler without `tenantOf`: `total` */
  readonly perTenant?: number | undefined;
  readonly total?: number | undefined;
}

/**
 * Limits of an MCP handler. A caller is a combination of tenant, issuer, subject and client. Without `auth`, all clients of a tenant are
 * one caller. A request that exceeds a `perCaller` or `perTenant` limit is answered with 429, one that exceeds a `total` limit with 503. All
 * of these responses have a `Retry-After` header.
 */
export interface HttpLimitOptions {
  /**
   * Largest number of requests whose body is being received and, counted separately, of requests that are being answered. A request is
   * being answered until the client has read its response. 1 to 100,000.
   * @default { perCaller: 100, total: 500 }
   */
  readonly requests?: SharedLimit | undefined;
  /**
   * Largest number of notification streams (GET in the revisions of 2025, `subscriptions/listen` in 2026-07-28). They do not count as
   * requests. 1 to 100,000.
   * @default { perCaller: 100, total: 1_000 }
   */
  readonly listenStreams?: SharedLimit | undefined;
  /**
   * Largest sum of the bytes in the bodies of requests that are being received or answered. 1 KiB to 16 GiB, and at least `maxBodyBytes`.
   * @default { perCaller: 33_554_432, total: 134_217_728 } (32 and 128 MiB)
   */
  readonly requestBytes?: SharedLimit | undefined;
  /**
   * Largest sum of the bytes in responses that clients have not read yet. A response that exceeds the limit is aborted or replaced by an
   * error, after its call has run. 64 KiB to 16 GiB.
   * @default { perCaller: 67_108_864, total: 268_435_456 } (64 and 256 MiB)
   */
  readonly responseBytes?: SharedLimit | undefined;
  /**
   * Longest time in ms for each of `auth.serveMetadata`, `auth.authenticate` and `tenantOf`, 1 to 60,000. After it the request is answered
   * with 503.
   * @default 5_000
   */
  readonly identifyMs?: number | undefined;
  /**
   * Longest time in ms for the body of a request to arrive, 1 to 600,000. After it the request is answered with 408.
   * @default 30_000
   */
  readonly bodyMs?: number | undefined;
  /**
   * Longest time in ms that a client may leave available data of a response unread, 1 to 600,000. After it the response is aborted and its
   * call is cancelled.
   * @default 30_000
   */
  readonly unreadMs?: number | undefined;
  /**
   * Longest time in ms that a call may continue after its caller's token has expired, 0 to 3,600,000. After it the call is cancelled and its
   * response is aborted. Notification streams end as soon as the token expires.
   * @default 60_000
   */
  readonly expiredCallMs?: number | undefined;
}

const sharedLimit = (min: number, max: number, perCaller: number, total: number) =>
  strictObject({
    perCaller: z.int().min(min).max(max).default(perCaller),
    perTenant: z.int().min(min).max(max).optional(),
    total: z.int().min(min).max(max).default(total),
  }).prefault({});
const duration = (min: number, max: number, fallback: number) => z.int().min(min).max(max).default(fallback);

const MAX_COUNT = 100_000;
const MAX_BYTES = 16 * 1_024 * MiB;

export const HttpLimitsSchema = strictObject({
  requests: sharedLimit(1, MAX_COUNT, 100, 500),
  listenStreams: sharedLimit(1, MAX_COUNT, 100, 1_000),
  requestBytes: sharedLimit(1_024, MAX_BYTES, 32 * MiB, 128 * MiB),
  responseBytes: sharedLimit(64 * 1_024, MAX_BYTES, 64 * MiB, 256 * MiB),
  identifyMs: duration(1, 60_000, 5_000),
  bodyMs: duration(1, 600_000, 30_000),
  unreadMs: duration(1, 600_000, 30_000),
  expiredCallMs: duration(0, 3_600_000, 60_000),
});

export type HttpLimits = z.infer<typeof HttpLimitsSchema>;

/** Counters of the requests and bytes that the callers of one handler currently use. */
export interface HttpQuotas {
  /** Requests whose body is being received. */
  readonly reading: CallerQuota;
  /** Requests whose response is being produced or read. */
  readonly answering: CallerQuota;
  readonly listening: CallerQuota;
  readonly requestBytes: CallerQuota;
  readonly responseBytes: CallerQuota;
}

/** @param isMulti whether the callers belong to several tenants, so that one of them leaves room for the others */
export function createQuotas(limits: HttpLimits, isMulti = false): HttpQuotas {
  const create = ({ perCaller, total, perTenant }: HttpLimits["requests"]): CallerQuota => {
    const share = isMulti ? Math.max(perCaller, Math.floor(total / 2)) : total;
    return new CallerQuota({ perCaller, perTenant: perTenant ?? share, total });
  };
  return {
    reading: create(limits.requests),
    answering: create(limits.requests),
    listening: create(limits.listenStreams),
    requestBytes: create(limits.requestBytes),
    responseBytes: create(limits.responseBytes),
  };
}
