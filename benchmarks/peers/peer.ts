// The interface of a peer in the benchmarks: one small adapter for each, so that all run the same job.
import { readFile } from "node:fs/promises";
import type { Job } from "../support/jobs.ts";

export interface LoadedJob {
  call(input: unknown): Promise<unknown>;
  dispose(): void | Promise<void>;
}

export interface Peer extends AsyncDisposable {
  /** Runs a job in a sandbox of its own, made for it and thrown away: what a call costs when nothing is warm. */
  run(job: Job): Promise<unknown>;
  /** Loads a job that is then called again and again; absent where a peer has no such way. */
  load?(job: Job): Promise<LoadedJob>;
}

export interface PeerAdapter {
  /** Its npm package, in benchmarks/package.json. */
  readonly name: string;
  /** Whether a job's `host.ask` works. */
  readonly canAsk: boolean;
  /** Throws where it cannot run on this machine. */
  open(): Promise<Peer>;
}

/**
 * Imports a package of benchmarks/node_modules. By a name that the compiler does not follow: the product's own checks must not need the
 * peers. `T` states the part of the package that is used.
 */
export async function load<T>(name: string): Promise<T> {
  return (await import(name)) as T;
}

/** The version that is installed. */
export async function versionOf(name: string): Promise<string> {
  const text = await readFile(new URL(`../node_modules/${name}/package.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
