// Constants of fields that the messages of both directions share.

/** Host and worker always have the same version. A mismatch means a broken installation. */
export const PROTOCOL_VERSION = 1;

/** Maximum size of a message's JSON. All large values are sent as parts. */
export const MAX_MESSAGE_BYTES = 64 * 1024;

/** Maximum size of the snapshot of the Python interpreter: its initial memory is 30 MiB, and wheels may add to it. */
export const MAX_SNAPSHOT_BYTES: number = 64 * 1024 * 1024;

/** Maximum size of a message of the DevTools protocol. Scripts and heap snapshots arrive in smaller pieces. */
export const MAX_INSPECT_BYTES: number = 16 * 1024 * 1024;

export const MAX_SEED_LENGTH = 256;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
/** Level of a log line. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Source location in one of the tool's scripts: `script:line:column`. */
export const SOURCE_LOCATION_PATTERN: RegExp = /^[\w.-]{1,40}:\d{1,9}:\d{1,9}$/;

/** Maximum number of members of one capability in ctx. They fit into one message together with the names of its uncounted inputs. */
export const MAX_MEMBERS = 128;
export const MAX_MEMBER_LENGTH = 128;

export const ISOLATE_LIFETIMES = ["call", "tool", "session"] as const;
/** Lifetime of an isolate: one call, many calls of one tenant and tool version, or the calls of one session. */
export type IsolateLifetime = (typeof ISOLATE_LIFETIMES)[number];
