// Launchers for the tests of workers: with all layers that this machine supports, and processes of one isolate.
import { Launcher } from "../../src/host/workers/hardening/launcher.ts";
import { ProcessStarter } from "../../src/host/workers/spawn/process-starter.ts";

export type Parent = "host" | "spawner";

/** @param parent who starts what is launched; by default as a real host has it */
export function launcherOf(script: string, parent?: Parent): Promise<Launcher> {
  return Launcher.create({
    script,
    hardening: { require: [], without: [], jitless: false },
    isolatesPerProcess: 1,
    ...(parent === undefined ? {} : { starter: starterBy(parent) }),
  });
}

export const starterBy = (parent: Parent): ProcessStarter =>
  new ProcessStarter(parent === "host" ? Number.POSITIVE_INFINITY : 0);
