// Messages between the host and its spawner. Both are trusted. The only guest-controlled data in them is a few lines of
// stderr.
import type { IdlePolicy } from "./idle-policy.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import type { Ending, SpawnCommand } from "./spawn-command.ts";

export type SpawnerRequest =
  | { readonly type: "start"; readonly id: number; readonly command: SpawnCommand }
  /** Ends the process together with the host. An earlier spawner, which has died, had started it. */
  | { readonly type: "adopt"; readonly identity: ProcessIdentity }
  | { readonly type: "set-idle"; readonly policy: IdlePolicy };

export type SpawnerReply =
  /** The message carries the process's socket. */
  | { readonly type: "started"; readonly id: number; readonly identity: ProcessIdentity }
  | { readonly type: "failed"; readonly id: number }
  | { readonly type: "ended"; readonly id: number; readonly ending: Ending };
