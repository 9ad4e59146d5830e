// Opens the peers that work on this machine, and reports why each other one is left out.
import { isDeepStrictEqual } from "node:util";
import { ADD, type Job } from "../support/jobs.ts";
import type { LeftOut } from "../support/result.ts";
import { deno } from "./deno.ts";
import { type Peer, type PeerAdapter, versionOf } from "./peer.ts";
import { quickJs } from "./quickjs.ts";
import { quickJsSandbox } from "./quickjs-sandbox.ts";
import { run } from "./run.ts";
import { secureExec } from "./secure-exec.ts";
import { workerd } from "./workerd.ts";

export const ADAPTERS: readonly PeerAdapter[] = [quickJs, run, quickJsSandbox, workerd, secureExec, deno];

/** A peer that has not answered within this time in ms counts as not started. */
const OPEN_MS = 15_000;

/** Longest time in ms that a process may take to end by itself. */
const EXIT_MS = 2_000;

export interface OpenPeer {
  readonly name: string;
  readonly version: string;
  readonly peer: Peer;
}

/** The peers that gave the right answer to a first job. */
export class Peers implements AsyncDisposable {
  readonly open: readonly OpenPeer[];
  readonly leftOut: readonly LeftOut[];

  private constructor(open: readonly OpenPeer[], leftOut: readonly LeftOut[]) {
    this.open = open;
    this.leftOut = leftOut;
  }

  /** Those that can do the job: one that asks the host only where `asks`. */
  static async start(wanted: { readonly asks?: boolean; readonly only?: readonly string[] } = {}): Promise<Peers> {
    const open: OpenPeer[] = [];
    const leftOut: LeftOut[] = [];
    for (const adapter of ADAPTERS) {
      const { name } = adapter;
      if (wanted.only !== undefined && !wanted.only.includes(name)) continue;
      if (wanted.asks === true && !adapter.canAsk) {
        leftOut.push({ name, reason: "its adapter offers a job no host functions" });
        continue;
      }
      try {
        open.push({ name, version: await versionOf(name), peer: await openAndTry(adapter) });
      } catch (error) {
        leftOut.push({ name, reason: reasonOf(error) });
      }
    }
    for (const { name, reason } of leftOut) console.log(`Left out: ${name}: ${reason}`);
    return new Peers(open, leftOut);
  }

  /** One subject for each peer, which runs the job in its own sandbox. */
  subjects(job: Job): { readonly [name: string]: () => Promise<unknown> } {
    return Object.fromEntries(this.open.map(({ name, peer }) => [name, () => peer.run(job)]));
  }

  get notes(): readonly string[] {
    if (this.open.length === 0) return [];
    return [`Peers: ${this.open.map(({ name, version }) => `${name} ${version}`).join(", ")}.`];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { peer } of this.open) await peer[Symbol.asyncDispose]();
    // A peer's timers and threads must not keep a benchmark from ending.
    setTimeout(() => process.exit(), EXIT_MS).unref();
  }
}

async function openAndTry(adapter: PeerAdapter): Promise<Peer> {
  const late = new Error(`It gave no answer within ${OPEN_MS} ms`);
  const peer = await within(adapter.open(), late);
  try {
    const output = await within(peer.run(ADD), late);
    if (!isDeepStrictEqual(output, { sum: 3 })) throw new Error(`It answered ${JSON.stringify(output)} to 1 + 2`);
    return peer;
  } catch (error) {
    await peer[Symbol.asyncDispose]();
    throw error;
  }
}

async function within<T>(work: Promise<T>, late: Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late), OPEN_MS);
  });
  try {
    return await Promise.race([work, end]);
  } finally {
    clearTimeout(timer);
  }
}

/** Reduces a text to one line without paths of this machine. */
function reasonOf(error: unknown): string {
  const line = (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
  if ((error as { readonly code?: unknown }).code === "ENOENT") return "not installed: npm install --prefix benchmarks";
  return line.replaceAll(/(?:file:\/\/)?\/[^\s'"]*\//g, "…/").slice(0, 300);
}
