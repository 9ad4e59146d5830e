// Subjects of the messages between control plane and executors, and who may use which. The id of an executor is part of
// each of its subjects, and its pool of those of its announcements, so that the NATS server itself checks who sent a message
// and in which pool the sender is.
import { PoolSchema } from "./pool-name.ts";

/** Ids of executors and of control planes: one token of a subject. */
export const FLEET_ID_PATTERN: RegExp = /^[A-Za-z0-9_-]{1,64}$/;
/** Rule of {@link FLEET_ID_PATTERN} for error messages. */
export const FLEET_ID_RULE = "1 to 64 letters, digits, _ and -";

/** Messages of control planes to one executor. Only this executor may subscribe. */
export const executorSubject = (executor: string): string => `glovebox.executor.${executor}`;
/** Messages of one executor to one control plane. Only this executor may publish. */
export const controlSubject = (control: string, executor: string): string => `glovebox.control.${control}.${executor}`;
/** An executor as its credentials name it. */
export interface ExecutorIdentity {
  readonly id: string;
  /** The pool that it belongs to: the calls of no other pool are sent to it. */
  readonly pool: string;
}

/** Announcements of one executor. Only this executor may publish, and only control planes may subscribe. */
export const aliveSubject = ({ id, pool }: ExecutorIdentity): string => `glovebox.alive.${pool}.${id}`;
export const ALL_ALIVE = "glovebox.alive.*.*";

/** Returns which executor has sent an announcement, as NATS has checked it; undefined for another subject. */
export function toAnnouncer(subject: string): ExecutorIdentity | undefined {
  const [, , pool = "", id = "", ...others] = subject.split(".");
  const isValid = others.length === 0 && PoolSchema.safeParse(pool).success && FLEET_ID_PATTERN.test(id);
  return isValid ? { id, pool } : undefined;
}

/**
 * Streams and subjects of the work queue. Each database has its own, so that servers with other databases can use the
 * same NATS server. Only control planes may publish, and no executor may read.
 */
export const workStreamName = (database: string): string => `GLOVEBOX_CALLS_${database}`;
export const workSubject = (database: string, pool: string, shard: number | "*", call: string): string =>
  `glovebox.queue.${database}.${pool}.${shard}.${call}`;

/** Prefix of the subjects on which control planes receive responses of JetStream. Executors send no requests. */
export const CONTROL_INBOX = "_INBOX_glovebox_control";

/** Subjects that a client may use. */
export interface FleetPermissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/**
 * Returns the permissions of one executor. NATS does not check the reply subject of a message, and sends its own answers
 * with its own rights. So an executor may publish only to subjects that NATS itself never answers: no stream captures
 * them, none belongs to the API of JetStream, and their subscribers, the control planes, ignore the reply subject.
 */
export const executorPermissions = (executor: ExecutorIdentity): FleetPermissions => ({
  publish: [aliveSubject(executor), controlSubject("*", executor.id)],
  subscribe: [executorSubject(executor.id)],
});

/** Returns the permissions of control planes, which all have the same. */
export const controlPermissions = (): FleetPermissions => ({
  publish: ["glovebox.executor.*", "glovebox.queue.>", "$JS.API.>", "$JS.ACK.>"],
  subscribe: ["glovebox.control.>", ALL_ALIVE, `${CONTROL_INBOX}.>`],
});
