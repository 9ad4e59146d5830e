// The client library of NATS, an optional package. Only this file's declarations contain its types, and the declarations of a public entry
// do not import this file: a consumer compiles them without the package.
import type { NatsConnection } from "@nats-io/transport-node";
import { ToolError } from "../../sandbox/contract/errors.ts";

/** @throws {ToolError} PARAM_INVALID, as a rejection, if the package is not installed */
export async function importNats(): Promise<typeof import("@nats-io/transport-node")> {
  try {
    return await import("@nats-io/transport-node");
  } catch (cause) {
    const packages = "@nats-io/transport-node @nats-io/jetstream";
    throw new ToolError("PARAM_INVALID", `Executors need packages. Install them: npm install ${packages}`, { cause });
  }
}

/**
 * Returns the client library's connection behind a `FleetConnection`.
 * @throws {Error} if there was none yet
 */
export function natsOf({ nats }: { readonly nats: object | undefined }): NatsConnection {
  if (nats === undefined) throw new Error("NATS has not been reached yet");
  return nats as NatsConnection;
}

/** Returns whether an error of the client library says that the server denies the credentials. */
export const isDenial = (error: unknown): boolean =>
  error instanceof Error && /authorization violation|authentication (?:expired|revoked)/i.test(error.message);
