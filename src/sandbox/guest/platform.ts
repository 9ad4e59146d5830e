// The web platform's globals that come in chunks, and what a chunk may take from the prelude. A tool pays for what it touches.
import type { ChunkName } from "../chunk-names.ts";
import { ask } from "./host.ts";
import { defineLazyGlobals, ErrorConstructor } from "./primordials.ts";

type Exports = { readonly [name: string]: unknown };
/** What a chunk's script is: given a way to its imports, it evaluates to its exports. */
type ChunkFunction = (require: (name: string) => unknown) => Exports;

const GLOBALS: { readonly [Name in ChunkName]?: readonly string[] } = {
  url: ["URL", "URLSearchParams"],
};

/**
 * The prelude's modules that chunks import, as the build has named them: `import … from "../events.ts"` in a chunk is a look-up here,
 * since a class of which there are two is no class. Harmless in a guest's hands, which could take them from a chunk.
 */
const PRELUDE_MODULES: { readonly [name: string]: () => Exports } = { __proto__: null as never };

const evaluate = Reflect.get(globalThis, "eval") as (source: string) => unknown;
const loaded = { __proto__: null } as unknown as { [name: string]: Exports | undefined };

function requireInChunk(name: string): unknown {
  return PRELUDE_MODULES[name]?.() ?? useChunk(name as ChunkName);
}

/** What the chunk exports; evaluates it the first time. */
export function useChunk(name: ChunkName): Exports {
  const known = loaded[name];
  if (known !== undefined) return known;
  const source = ask("chunk", name) as string | undefined;
  if (source === undefined) throw new ErrorConstructor("The sandbox could not load a part of its platform");
  const made = (evaluate(source) as ChunkFunction)(requireInChunk);
  loaded[name] = made;
  return made;
}

/** Called before lockDown() takes the engine's own `eval` from the guest. */
export function installPlatform(): void {
  for (const name in GLOBALS) defineLazyGlobals(GLOBALS[name as ChunkName] ?? [], () => useChunk(name as ChunkName));
}
