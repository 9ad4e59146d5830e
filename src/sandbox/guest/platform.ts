// The web platform's globals that come in chunks, and what a chunk may take from the prelude. A tool pays for what it touches.
import type { ChunkName } from "../chunk-names.ts";
import { markBytesOf } from "./bytes-text.ts";
import { callSerial } from "./call-state.ts";
import { now, timeOrigin } from "./coarse-time.ts";
import { connectFormatting, type Formatting } from "./console.ts";
import { makeDomException } from "./dom-exception.ts";
import { connectLegacyEncodings, encodingClasses, type LegacyDecoder } from "./encoding.ts";
import { eventClasses } from "./events.ts";
import { openFetchChannel } from "./fetch-channel.ts";
import { ask, listenForAnswers } from "./host.ts";
import { defineLazyGlobals, ErrorConstructor } from "./primordials.ts";
import { onException, reportException } from "./report.ts";
import { addPlatformType, cloneWithTransfer, structuredClone } from "./structured-clone.ts";
import { followContext, inContext, queueTask } from "./timers.ts";

type Exports = { readonly [name: string]: unknown };
/** What a chunk's script is: given a way to its imports, it evaluates to its exports. */
type ChunkFunction = (require: (name: string) => unknown) => Exports;

const GLOBALS: { readonly [Name in ChunkName]?: readonly string[] } = {
  url: ["URL", "URLSearchParams"],
  streams: [
    "ReadableStream",
    "ReadableStreamDefaultReader",
    "ReadableStreamBYOBReader",
    "ReadableStreamBYOBRequest",
    "ReadableByteStreamController",
    "ReadableStreamDefaultController",
    "WritableStream",
    "WritableStreamDefaultWriter",
    "WritableStreamDefaultController",
    "TransformStream",
    "TransformStreamDefaultController",
    "ByteLengthQueuingStrategy",
    "CountQueuingStrategy",
  ],
  blob: ["Blob", "File"],
  fetch: ["fetch", "Headers", "Request", "Response", "FormData"],
  "encoding-streams": ["TextEncoderStream", "TextDecoderStream"],
  compression: ["CompressionStream", "DecompressionStream"],
  crypto: ["crypto", "Crypto", "CryptoKey", "SubtleCrypto"],
  "node-buffer": ["Buffer"],
  "node-process": ["process"],
  messaging: [
    "MessageChannel",
    "MessagePort",
    "MessageEvent",
    "ErrorEvent",
    "PromiseRejectionEvent",
    "BroadcastChannel",
    "addEventListener",
    "removeEventListener",
    "dispatchEvent",
  ],
  performance: [
    "performance",
    "Performance",
    "PerformanceEntry",
    "PerformanceMark",
    "PerformanceMeasure",
    "PerformanceObserver",
    "PerformanceObserverEntryList",
  ],
  navigator: ["navigator", "Navigator"],
  urlpattern: ["URLPattern"],
};

/**
 * The prelude's modules that chunks import, as the build has named them: `import … from "../events.ts"` in a chunk is a look-up here,
 * since a class of which there are two is no class. Harmless in a guest's hands, which could take them from a chunk.
 */
const PRELUDE_MODULES: { readonly [name: string]: () => Exports } = {
  __proto__: null as never,
  "prelude:bytes-text": () => ({ markBytesOf }),
  "prelude:call-state": () => ({ callSerial }),
  "prelude:coarse-time": () => ({ now, timeOrigin }),
  "prelude:dom-exception": () => ({ makeDomException }),
  "prelude:encoding": () => ({ encodingClasses }),
  "prelude:fetch-channel": () => ({ openFetchChannel }),
  "prelude:host": () => ({ ask, listenForAnswers }),
  "prelude:platform": () => ({ useBuiltin }),
  "prelude:structured-clone": () => ({ addPlatformType, cloneWithTransfer, structuredClone }),
  "prelude:events": () => ({ eventClasses }),
  "prelude:report": () => ({ onException, reportException }),
  "prelude:timers": () => ({ followContext, inContext, queueTask }),
};

const evaluate = Reflect.get(globalThis, "eval") as (source: string) => unknown;
const loaded = { __proto__: null } as unknown as { [name: string]: Exports | undefined };

/** Compiled by the worker, with its code cache, and not evaluated yet. */
const compiled = { __proto__: null } as unknown as { [name: string]: ChunkFunction | undefined };

function requireInChunk(name: string): unknown {
  return PRELUDE_MODULES[name]?.() ?? useChunk(name as ChunkName);
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

/** Called before lockDown() takes the engine's own `eval` from the guest. */
export function installPlatform(): void {
  for (const name in GLOBALS) defineLazyGlobals(GLOBALS[name as ChunkName] ?? [], () => useChunk(name as ChunkName));
  connectFormatting(() => useChunk("console") as unknown as Formatting);
  connectLegacyEncodings((label, fatal) => {
    const create = useChunk("legacy-encodings").createLegacyDecoder as (label: string, fatal: boolean) => LegacyDecoder;
    return create(label, fatal);
  });
}
