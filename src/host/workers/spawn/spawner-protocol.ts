// What the host and its spawner say to each other. Both are our own code, and nothing that a guest made passes here but a few lines
// of stderr.
import type { IdlePolicy } from "./idle-policy.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import type { Ending, SpawnCommand } from "./spawn-command.ts";

export type SpawnerRequest =
  | { readonly type: "start"; readonly id: number; readonly command: SpawnCommand }
  /** To be ended with the host: it was started by a spawner that is no more. */
  | { readonly type: "adopt"; readonly identity: ProcessIdentity }
  | { readonly type: "set-idle"; readonly policy: IdlePolicy };

export type SpawnerReply =
  /** The process's socket comes with it. */
  | { readonly type: "started"; readonly id: number; readonly identity: ProcessIdentity }
  | { readonly type: "failed"; readonly id: number }
  | { readonly type: "ended"; readonly id: number; readonly ending: Ending };
