// What the operator's log says about the connection to NATS and about executors.

/**
 * A change of the connection to NATS or of an executor. `nats-unreachable`: the first connection has failed and is
 * tried again; `nats-lost` and `nats-connected`: the connection was lost, and is there (again); `nats-denied`: the NATS
 * server rejects the credentials; `executor-lost`: an executor is silent, or has restarted while calls ran;
 * `executor-returned`: a lost executor has come back.
 */
export interface FleetEvent {
  readonly type:
    | "nats-unreachable"
    | "nats-denied"
    | "nats-lost"
    | "nats-connected"
    | "executor-lost"
    | "executor-returned";
  /** One sentence, without secrets. */
  readonly message: string;
  /** Id of the executor. */
  readonly executor?: string;
}

/** Returns the URLs of a NATS server without the user names and passwords that they may contain. */
export const toShownUrls = (urls: readonly string[]): string => urls.map(withoutUser).join(", ");

/** Returns a text without the user names and passwords of the URLs in it. */
export const withoutUser = (text: string): string => text.replace(/\/\/[^/\s]*@/g, "//");
