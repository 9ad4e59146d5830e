// Properties that all stages of a server's start have.
import type { pino } from "pino";
import type { ServerConfig } from "../config/server-options.ts";

/** When a server stops, both become false in this order: load balancers send nothing more, then no calls are accepted. */
export interface ServerState {
  isOpen: boolean;
  acceptsCalls: boolean;
}

export interface Startup {
  readonly config: ServerConfig;
  readonly log: pino.Logger;
  readonly version: string;
  readonly state: ServerState;
  /** Receives everything that the stages open. It is closed in reverse order, also if a later stage fails. */
  readonly resources: AsyncDisposableStack;
}

/** Returns a function that logs errors. @param message the part of the server that they come from */
export const logErrors =
  (log: pino.Logger, message: string): ((error: unknown) => void) =>
  (error) =>
    log.error({ err: error }, message);
