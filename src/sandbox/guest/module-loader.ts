// Loads platform modules inside the guest. Each is evaluated on first use, then cached.
import type { PlatformModuleName } from "../protocol/platform-modules.ts";
import { requestFromWorker } from "./host.ts";
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
  return preludeModules?.[name] ?? usePlatformModule(name as PlatformModuleName);
}

function compile(name: PlatformModuleName): ModuleFunction {
  const source = requestFromWorker("module", name) as string | undefined;
  if (source === undefined) throw new ErrorConstructor(`The sandbox could not load its platform module "${name}"`);
  return evaluate(source) as ModuleFunction;
}

/** Returns the exports of a platform module. Evaluates it on first use. */
export function usePlatformModule(name: PlatformModuleName): Exports {
  const known = loaded[name];
  if (known !== undefined) return known;
  const exports = (compiled[name] ?? compile(name))(requireModule);
  loaded[name] = exports;
  return exports;
}

/**
 * Registers the compiled platform modules that earlier isolates of the same bundle have used. Called before tool code runs.
 * @param isAhead whether to evaluate them now, because the tool is prewarmed
 * @param modules pairs of name and function
 */
export function registerModules(isAhead: boolean, modules: readonly unknown[]): void {
  for (let index = 0; index + 1 < modules.length; index += 2) {
    const name = modules[index] as PlatformModuleName | undefined;
    if (name === undefined) continue;
    compiled[name] = modules[index + 1] as ModuleFunction;
  }
  if (isAhead) for (const name in compiled) usePlatformModule(name as PlatformModuleName);
}

/** Returns the exports of a Node built-in. The bundler takes both names from NODE_BUILTINS. */
export function useBuiltin(module: string, name: string): unknown {
  return (usePlatformModule(module as PlatformModuleName).builtins as Exports | undefined)?.[name];
}

/** Creates a DOMException. Its class is in a platform module. */
export function createDomException(message: string, name: string): Error {
  return (usePlatformModule("dom-exception").create as (message: string, name: string) => Error)(message, name);
}
