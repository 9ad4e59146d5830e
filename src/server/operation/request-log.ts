// Writes a line for each request: who has sent it, to which route, and how it ended. No paths, queries or bodies, which can hold a tenant's data.
import type { pino } from "pino";

/** Routes that machines request every few seconds: their lines have the level `debug`. */
const PROBES: ReadonlySet<string> = new Set(["/healthz", "/readyz", "/metrics"]);
/** Lines of failed authentications in a window of time in ms: anyone can cause them. */
const FAILURES = { max: 20, windowMs: 10_000 } as const;

export interface RequestLine {
  readonly requestId: string;
  readonly method: string;
  /** Path template, such as `/v1/tenants/{tenant}`; `unknown` for a path without a route. */
  readonly route: string;
  readonly status: number;
  readonly ms: number;
  readonly keyId: string | undefined;
  readonly tenant: string | undefined;
  readonly ip: string | undefined;
}

export class RequestLog {
  readonly #log: pino.Logger;
  readonly #now: () => number;
  #windowEnd = 0;
  #failures = 0;
  #omitted = 0;

  /** @param now returns a monotonic time in ms */
  constructor(log: pino.Logger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  ended({ ip, ms, ...request }: RequestLine): void {
    if (request.status === 401) {
      this.#denied({ ...request, ip });
      return;
    }
    const level = PROBES.has(request.route) ? "debug" : "info";
    if (this.#log.isLevelEnabled(level)) this.#log[level]({ ...request, ms: Math.round(ms * 10) / 10 }, "request");
  }

  #denied(request: object): void {
    const now = this.#now();
    if (now >= this.#windowEnd) {
      this.#windowEnd = now + FAILURES.windowMs;
      this.#failures = 0;
    }
    this.#failures += 1;
    if (this.#failures > FAILURES.max) {
      this.#omitted += 1;
      return;
    }
    const omitted = this.#omitted;
    this.#omitted = 0;
    this.#log.warn(omitted === 0 ? request : { ...request, omitted }, "authentication failed");
  }
}
