// Subjects of the messages between control plane and executors, and who may use which. The id of an executor is part of
// each of its subjects, so that the NATS server itself checks who sent a message.

/** Ids of executors and of control planes: one token of a subject. */
export const FLEET_ID_PATTERN: RegExp = /^[A-Za-z0-9_-]{1,64}$/;
/** Rule of {@link FLEET_ID_PATTERN} for error messages. */
export const FLEET_ID_RULE = "1 to 64 letters, digits, _ and -";

/** Messages of control planes to one executor. Only this executor may subscribe. */
export const executorSubject = (executor: string): string => `glovebox.executor.${executor}`;
/** Messages of one executor to one control plane. Only this executor may publish. */
export const controlSubject = (control: string, executor: string): string => `glovebox.control.${control}.${executor}`;
/** Announcements of one executor. Only this executor may publish, and only control planes may subscribe. */
export const aliveSubject = (executor: string): string => `glovebox.alive.${executor}`;
export const ALL_ALIVE = "glovebox.alive.*";

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
export const executorPermissions = (executor: string): FleetPermissions => ({
  publish: [aliveSubject(executor), controlSubject("*", executor)],
  subscribe: [executorSubject(executor)],
});

/** Returns the permissions of control planes, which all have the same. */
export const controlPermissions = (): FleetPermissions => ({
  publish: ["glovebox.executor.*", "glovebox.queue.>", "$JS.API.>", "$JS.ACK.>"],
  subscribe: ["glovebox.control.>", ALL_ALIVE, `${CONTROL_INBOX}.>`],
});
