// Limits of the MCP server over HTTP: how much one caller, and all callers together, may have open, send and leave unread, and how long.
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { CallerQuota } from "./caller-quota.ts";

const MiB = 1_024 * 1_024;

/** A limit for each caller and one for all callers together. */
export interface SharedLimit {
  readonly perCaller?: number | undefined;
  readonly total?: number | undefined;
}

/**
 * A caller is a tenant with an issuer, subject and client. Without `auth`, all clients of a tenant are one caller. Past the limit of a
 * caller a request is answered with 429, past that of all callers with 503; both have a `Retry-After`.
 */
export interface HttpLimitOptions {
  /**
   * Requests that are being read, and requests that are being answered; each up to this number. A request is being answered until its
   * response has been read. 1 to 100,000. Default: 100 for each caller, 500 in all.
   */
  readonly requests?: SharedLimit | undefined;
  /**
   * Streams on which clients listen for notifications (GET in 2025's revisions, `subscriptions/listen` in 2026-07-28). They do not count
   * as requests. 1 to 100,000. Default: 100 for each caller, 1,000 in all.
   */
  readonly listenStreams?: SharedLimit | undefined;
  /**
   * Bytes of the bodies of requests that are being read or answered. 1 KiB to 16 GiB, and at least `maxBodyBytes`. Default: 32 MiB for
   * each caller, 128 MiB in all.
   */
  readonly requestBytes?: SharedLimit | undefined;
  /**
   * Bytes of responses that clients have not read yet. A response that exceeds the limit is aborted, or replaced by an error, after
   * its call has run. 64 KiB to 16 GiB. Default: 64 MiB for each caller, 256 MiB in all.
   */
  readonly responseBytes?: SharedLimit | undefined;
  /**
   * How long each of `auth.serveMetadata`, `auth.authenticate` and `tenantOf` may take, in ms, 1 to 60,000. Past it the request is answered
   * with 503. Default: 5,000.
   */
  readonly identifyMs?: number | undefined;
  /** How long the body of a request may take to arrive, in ms, 1 to 600,000. Past it the request is answered with 408. Default: 30,000. */
  readonly bodyMs?: number | undefined;
  /**
   * How long a client may read nothing of a response that has data for it, in ms, 1 to 600,000. Past it the response is aborted and its call
   * cancelled. Default: 30,000.
   */
  readonly unreadMs?: number | undefined;
  /**
   * How long a call may go on after its caller's token has expired, in ms, 0 to 3,600,000. Past it the call is cancelled and its response
   * aborted. Streams on which a client listens end as soon as the token expires. Default: 60,000.
   */
  readonly expiredCallMs?: number | undefined;
}

const sharedLimit = (min: number, max: number, perCaller: number, total: number) =>
  strictObject({
    perCaller: z.int().min(min).max(max).default(perCaller),
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

/** Counts requests and bytes that callers of one handler hold at present. */
export interface HttpQuotas {
  /** Requests whose body is being read. */
  readonly reading: CallerQuota;
  /** Requests whose response is being made or read. */
  readonly answering: CallerQuota;
  readonly listening: CallerQuota;
  readonly requestBytes: CallerQuota;
  readonly responseBytes: CallerQuota;
}

export const createQuotas = (limits: HttpLimits): HttpQuotas => ({
  reading: new CallerQuota(limits.requests),
  answering: new CallerQuota(limits.requests),
  listening: new CallerQuota(limits.listenStreams),
  requestBytes: new CallerQuota(limits.requestBytes),
  responseBytes: new CallerQuota(limits.responseBytes),
});
