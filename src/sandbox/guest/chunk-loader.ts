// Loads platform modules inside the guest. Each is evaluated on first use, then cached.
import type { ChunkName } from "../protocol/platform-modules.ts";
import { ask } from "./host.ts";
import { ErrorConstructor } from "./primordials.ts";

export type Exports = { readonly [name: string]: unknown };
/** Completion value of a platform module's script: a function that takes a `require` for the module's imports and returns its exports. */
type ModuleFunction = (require: (name: string) => unknown) => Exports;
/** Modules of the prelude that platform modules can import, by name. */
export type PreludeModules = { readonly [name: string]: Exports };

const evaluate = Reflect.get(globalThis, "eval") as (source: string) => unknown;
const loaded = { __proto__: null } as unknown as { [name: string]: Exports | undefined };

/** Modules that the worker has compiled with their code caches and that are not evaluated yet. */
const compiled = { __proto__: null } as unknown as { [name: string]: ModuleFunction | undefined };

let makeModules: (() => PreludeModules) | undefined;
let preludeModules: PreludeModules | undefined;

export function connectModules(make: () => PreludeModules): void {
  makeModules = make;
}

function requireModule(name: string): unknown {
  preludeModules ??= makeModules?.();
  return preludeModules?.[name] ?? useChunk(name as ChunkName);
}

function compile(name: ChunkName): ModuleFunction {
  const source = ask("chunk", name) as string | undefined;
  if (source === undefined) throw new ErrorConstructor(`The sandbox could not load its platform module "${name}"`);
  return evaluate(source) as ModuleFunction;
}

/** Returns the exports of a platform module. Evaluates it on first use. */
export function useChunk(name: ChunkName): Exports {
  const known = loaded[name];
  if (known !== undefined) return known;
  const exports = (compiled[name] ?? compile(name))(requireModule);
  loaded[name] = exports;
  return exports;
}

/**
 * Registers the compiled platform modules that earlier isolates of the same bundle have used. Called before tool code runs.
 * @param isAhead whether to evaluate them now, because the tool is prewarmed
 * @param chunks pairs of name and function
 */
export function takeChunks(isAhead: boolean, chunks: readonly unknown[]): void {
  for (let index = 0; index + 1 < chunks.length; index += 2) {
    const name = chunks[index] as ChunkName | undefined;
    if (name === undefined) continue;
    compiled[name] = chunks[index + 1] as ModuleFunction;
  }
  if (isAhead) for (const name in compiled) useChunk(name as ChunkName);
}

/** Returns the exports of a Node built-in. The bundler takes both names from NODE_BUILTINS. */
export function useBuiltin(chunk: string, name: string): unknown {
  return (useChunk(chunk as ChunkName).builtins as Exports | undefined)?.[name];
}

/** Creates a DOMException. Its class is in a platform module. */
export function makeDomException(message: string, name: string): Error {
  return (useChunk("dom-exception").create as (message: string, name: string) => Error)(message, name);
}
