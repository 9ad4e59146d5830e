// The web platform's globals that come in chunks, and what a chunk may take from the prelude. A tool pays for what it touches.
import type { ChunkName } from "../protocol/platform-modules.ts";
import { fromTextWithBytes, markBytesOf } from "./bytes-text.ts";
import { callSerial } from "./call-state.ts";
import { connectModules, makeDomException, type PreludeModules, useBuiltin, useChunk } from "./chunk-loader.ts";
import { now, timeOrigin } from "./coarse-time.ts";
import { capText, describeValue, makeCapabilityError, notGranted } from "./error-text.ts";
import { openFetchChannel } from "./fetch-channel.ts";
import { ask, listenForAnswers, post, postWithBytes } from "./host.ts";
import { serialize, sizeOf } from "./json-output.ts";
import { LINE_UNITS, writeLazily } from "./log-lines.ts";
import {
  addPlatformType,
  capturePlatformTypes,
  errorConstructor,
  platformTypeOf,
  viewConstructor,
} from "./platform-types.ts";
import { allPrimordials, defineGlobal, defineLazyGlobal, ReflectApply } from "./primordials.ts";
import { onException, reportException } from "./report.ts";
import { followContext, inContext, queueTask, startTimer } from "./timers.ts";

type Names = { readonly [Name in ChunkName]?: readonly string[] };

/** Those that are looked at before they are used, and made then. */
const GLOBALS: Names = {
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
  websocket: ["WebSocket", "CloseEvent"],
  "event-source": ["EventSource"],
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
  encoding: ["TextEncoder", "TextDecoder"],
  events: ["Event", "CustomEvent", "EventTarget"],
  abort: ["AbortController", "AbortSignal"],
  "dom-exception": ["DOMException", "QuotaExceededError"],
  console: ["console"],
};

/** Those that are functions from the beginning, and load what they do when they are called. */
const FUNCTIONS: Names = {
  atob: ["atob", "btoa"],
  "structured-clone": ["structuredClone"],
};

function makeLazyFunction(chunk: ChunkName, name: string): unknown {
  const named = {
    [name]: (...args: readonly unknown[]): unknown =>
      ReflectApply(useChunk(chunk)[name] as (...args: readonly unknown[]) => unknown, undefined, args),
  };
  return named[name];
}

function forEach(table: Names, each: (chunk: ChunkName, name: string) => void): void {
  for (const chunk in table) {
    const names = table[chunk as ChunkName] ?? [];
    for (let index = 0; index < names.length; index += 1) each(chunk as ChunkName, names[index] as string);
  }
}

/**
 * The prelude's modules that chunks import, as the build has named them: `import … from "../timers.ts"` in a chunk is a look-up here,
 * since a class of which there are two is no class. Made when the first chunk is evaluated, by one function: each that is called for the
 * first time costs some 20 µs. Harmless in a guest's hands, which could take them from a chunk.
 */
const makePreludeModules = (): PreludeModules => ({
  __proto__: null as never,
  "prelude:bytes-text": { fromTextWithBytes, markBytesOf },
  "prelude:call-state": { callSerial },
  "prelude:chunk-loader": { makeDomException, useBuiltin, useChunk },
  "prelude:coarse-time": { now, timeOrigin },
  "prelude:error-text": { capText, describeValue, makeCapabilityError, notGranted },
  "prelude:fetch-channel": { openFetchChannel },
  "prelude:host": { ask, listenForAnswers, post, postWithBytes },
  "prelude:json-output": { serialize, sizeOf },
  "prelude:log-lines": { LINE_UNITS, writeLazily },
  "prelude:platform-types": { addPlatformType, errorConstructor, platformTypeOf, viewConstructor },
  "prelude:primordials": allPrimordials(),
  "prelude:report": { onException, reportException },
  "prelude:timers": { followContext, inContext, queueTask, startTimer },
});

/** Called before lockDown() takes the engine's own `eval` from the guest. */
export function installPlatform(): void {
  connectModules(makePreludeModules);
  capturePlatformTypes();
  forEach(GLOBALS, (chunk, name) => defineLazyGlobal(name, () => useChunk(chunk)[name]));
  forEach(FUNCTIONS, (chunk, name) => defineGlobal(name, makeLazyFunction(chunk, name)));
}
