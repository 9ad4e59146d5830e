// The platform's chunks inside the guest: each is evaluated when something first asks for it, and stays.
import type { ChunkName } from "../protocol/platform-modules.ts";
import { ask } from "./host.ts";
import { ErrorConstructor } from "./primordials.ts";

export type Exports = { readonly [name: string]: unknown };
/** What a chunk's script is: given a way to its imports, it evaluates to its exports. */
type ChunkFunction = (require: (name: string) => unknown) => Exports;
/** The prelude's modules that chunks import. */
export type PreludeModules = { readonly [name: string]: Exports };

const evaluate = Reflect.get(globalThis, "eval") as (source: string) => unknown;
const loaded = { __proto__: null } as unknown as { [name: string]: Exports | undefined };

/** Compiled by the worker, with its code cache, and not evaluated yet. */
const compiled = { __proto__: null } as unknown as { [name: string]: ChunkFunction | undefined };

let makeModules: (() => PreludeModules) | undefined;
let preludeModules: PreludeModules | undefined;

export function connectModules(make: () => PreludeModules): void {
  makeModules = make;
}

function requireInChunk(name: string): unknown {
  preludeModules ??= makeModules?.();
  return preludeModules?.[name] ?? useChunk(name as ChunkName);
}

function compile(name: ChunkName): ChunkFunction {
  const source = ask("chunk", name) as string | undefined;
  if (source === undefined) throw new ErrorConstructor("The sandbox could not load a part of its platform");
  return evaluate(source) as ChunkFunction;
}

/** What the chunk exports; evaluates it the first time. */
export function useChunk(name: ChunkName): Exports {
  const known = loaded[name];
  if (known !== undefined) return known;
  const made = (compiled[name] ?? compile(name))(requireInChunk);
  loaded[name] = made;
  return made;
}

/**
 * What earlier isolates of the same bundle have touched, before anything of the tool's runs in this one.
 * @param isAhead of a call: then they are evaluated too
 * @param chunks names and functions, in turns
 */
export function takeChunks(isAhead: boolean, chunks: readonly unknown[]): void {
  for (let index = 0; index + 1 < chunks.length; index += 2) {
    const name = chunks[index] as ChunkName | undefined;
    if (name === undefined) continue;
    compiled[name] = chunks[index + 1] as ChunkFunction;
  }
  if (isAhead) for (const name in compiled) useChunk(name as ChunkName);
}

/** What a built-in of Node exports. The bundler takes both names from NODE_BUILTINS. */
export function useBuiltin(chunk: string, name: string): unknown {
  return (useChunk(chunk as ChunkName).builtins as Exports | undefined)?.[name];
}

/** An error of the web platform's own, whose class comes in a chunk. */
export function makeDomException(message: string, name: string): Error {
  return (useChunk("dom-exception").create as (message: string, name: string) => Error)(message, name);
}
