// User ids of upstream servers' programs. No two programs that run have the same one: all processes of a user are killed with its program, and
// a program can read what another one of its user has.
import { readdirSync, statSync } from "node:fs";
import { unavailable } from "../../../sandbox/contract/errors.ts";
import { LAST_UID, OTHER_UIDS } from "../../workers/hardening/launcher.ts";

/** Ids of the programs of this process. */
const taken = new Set<number>();
/** A random start, so that two hosts on one machine rarely try the same id. */
let last = Math.floor(Math.random() * OTHER_UIDS);

/** Returns the user ids of all processes of this machine that can be seen, by the id of the process. */
export function ownersOfProcesses(): ReadonlyMap<number, number> {
  const owners = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const uid = statSync(`/proc/${name}`, { throwIfNoEntry: false })?.uid;
    if (uid !== undefined) owners.set(Number(name), uid);
  }
  return owners;
}

/**
 * Takes a user id that no process has, from a range apart from that of the workers. Give it back with {@link releaseUid}.
 * @throws {ToolError} TOOL_UNAVAILABLE if all of them are in use
 */
export function takeUid(): number {
  const owners = new Set(ownersOfProcesses().values());
  for (let tried = 0; tried < OTHER_UIDS; tried += 1) {
    last = (last + 1) % OTHER_UIDS;
    const uid = LAST_UID - last;
    if (taken.has(uid) || owners.has(uid)) continue;
    taken.add(uid);
    return uid;
  }
  throw unavailable("upstream_unavailable", `sandbox: all ${OTHER_UIDS} user ids for programs are in use`);
}

export function releaseUid(uid: number): void {
  taken.delete(uid);
}
