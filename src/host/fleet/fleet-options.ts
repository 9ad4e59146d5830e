// Options of a host whose calls run on executors.
import * as z from "zod";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import type { FleetEvent } from "./fleet-events.ts";

/** Executors on other machines that run the calls of sandboxed tools. They are connected through NATS with JetStream. */
export interface ExecutorsOptions {
  /** URL of the NATS server, or several of one cluster: `nats://127.0.0.1:4222`, `tls://nats.example.com:4222`. */
  readonly url: string | readonly string[];
  /** Path of the credentials file of the control plane. Default: none, for a NATS server without authentication. */
  readonly credentials?: string | undefined;
  /** Path of the certificates that sign the server's, in PEM format. Default: those of the system. */
  readonly tlsCa?: string | undefined;
  /**
   * Time in ms without a message of an executor after which its calls end as lost, 1,000 to 60,000.
   * @default 5_000
   */
  readonly silenceMs?: number | undefined;
  /** Receives changes of the connection to NATS and of executors, for the operator's log. Default: the `logger`. */
  readonly onEvent?: ((event: FleetEvent) => void) | undefined;
}

export const NatsUrlSchema = z
  .string()
  .max(1_024)
  .regex(/^(?:nats|tls):\/\/[^\s/]+$/, 'Expected a URL such as "nats://127.0.0.1:4222"');
/** A silence of one second is longer than any pause of a healthy executor on a machine with little load. */
export const SilenceSchema = z.int().min(1_000).max(60_000).default(5_000);

export const ExecutorsSchema = strictObject({
  url: z.union([NatsUrlSchema, z.array(NatsUrlSchema).min(1).max(16)]),
  credentials: z.string().min(1).optional(),
  tlsCa: z.string().min(1).optional(),
  silenceMs: SilenceSchema,
  onEvent: z
    .custom<(event: FleetEvent) => void>((value) => typeof value === "function", "Expected a function")
    .optional(),
});
export type ExecutorsConfig = z.output<typeof ExecutorsSchema>;
