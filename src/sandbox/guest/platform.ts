// Defines the globals that platform modules implement, and the prelude modules that platform modules can import. A platform module is
// loaded only when a tool uses it.
import type { PlatformModuleName } from "../protocol/platform-modules.ts";
import { fromTextWithBytes, markBytesOf } from "./bytes-text.ts";
import { callSerial } from "./call-state.ts";
import { now, timeOrigin } from "./coarse-time.ts";
import {
  createCapabilityError,
  describeValue,
  notGranted,
  toGuestError,
  truncateText,
  withCode,
  withReason,
} from "./error-text.ts";
import { openFetchChannel } from "./fetch-channel.ts";
import { listenForAnswers, post, postWithBytes, requestFromWorker } from "./host.ts";
import { serialize, sizeOf, toRejected } from "./json-output.ts";
import { MAX_LINE_LENGTH, writeLazily } from "./log-lines.ts";
import { warnAboutLost } from "./lost-values.ts";
import {
  connectModules,
  createDomException,
  type PreludeModules,
  useBuiltin,
  usePlatformModule,
} from "./module-loader.ts";
import {
  addPlatformType,
  capturePlatformTypes,
  errorConstructor,
  platformTypeOf,
  viewConstructor,
} from "./platform-types.ts";
import { allPrimordials, defineGlobal, defineLazyGlobal, ReflectApply, ReflectDefineProperty } from "./primordials.ts";
import { reportMeasure } from "./spans.ts";
import { followContext, inContext, promisedTimers, queueTask, startTimer } from "./timers.ts";
import { onException, reportException } from "./uncaught-errors.ts";

type Names = { readonly [Name in PlatformModuleName]?: readonly string[] };

/** Globals that are created on first access. */
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

/** Global functions that load their platform module when they are called. */
const FUNCTIONS: Names = {
  atob: ["atob", "btoa"],
  "structured-clone": ["structuredClone"],
};

function makeLazyFunction(module: PlatformModuleName, name: string): unknown {
  const named = {
    [name]: (...args: readonly unknown[]): unknown =>
      ReflectApply(usePlatformModule(module)[name] as (...args: readonly unknown[]) => unknown, undefined, args),
  };
  return named[name];
}

function forEach(table: Names, each: (module: PlatformModuleName, name: string) => void): void {
  for (const module in table) {
    const names = table[module as PlatformModuleName] ?? [];
    for (let index = 0; index < names.length; index += 1) each(module as PlatformModuleName, names[index] as string);
  }
}

/**
 * Returns the prelude modules that platform modules can import, by the names that the build gives them: `import … from "../timers.ts"` in a
 * platform module becomes a lookup here, because a second copy of a module would have different classes and state. Called when the first
 * platform module is evaluated; one function creates all, because the first call of a function costs about 20 µs. A tool could obtain these
 * functions from a platform module, so they must be harmless.
 */
const makePreludeModules = (): PreludeModules => ({
  __proto__: null as never,
  "prelude:bytes-text": { fromTextWithBytes, markBytesOf },
  "prelude:call-state": { callSerial },
  "prelude:module-loader": { createDomException, useBuiltin, usePlatformModule },
  "prelude:coarse-time": { now, timeOrigin },
  "prelude:error-text": {
    truncateText,
    describeValue,
    createCapabilityError,
    notGranted,
    toGuestError,
    withCode,
    withReason,
  },
  "prelude:fetch-channel": { openFetchChannel },
  "prelude:host": { requestFromWorker, listenForAnswers, post, postWithBytes },
  "prelude:json-output": { serialize, sizeOf, toRejected },
  "prelude:lost-values": { warnAboutLost },
  "prelude:log-lines": { MAX_LINE_LENGTH, writeLazily },
  "prelude:spans": { reportMeasure },
  "prelude:platform-types": { addPlatformType, errorConstructor, platformTypeOf, viewConstructor },
  "prelude:primordials": allPrimordials(),
  "prelude:uncaught-errors": { onException, reportException },
  "prelude:timers": { followContext, inContext, queueTask, startTimer },
});

const PROMISIFIED = Symbol.for("nodejs.util.promisify.custom");

/** Lets `util.promisify(setTimeout)` return the function of node:timers/promises. */
function definePromisified(name: "setTimeout" | "setImmediate"): void {
  ReflectDefineProperty(promisedTimers[name], PROMISIFIED, {
    __proto__: null,
    get: () => (usePlatformModule("node-timers").promises as Record<string, unknown>)[name],
    configurable: true,
    enumerable: true,
  } as PropertyDescriptor);
}

/** Installs the globals. Must be called before lockDown() removes the engine's `eval`. */
export function installPlatform(): void {
  connectModules(makePreludeModules);
  capturePlatformTypes();
  forEach(GLOBALS, (module, name) => defineLazyGlobal(name, () => usePlatformModule(module)[name]));
  forEach(FUNCTIONS, (module, name) => defineGlobal(name, makeLazyFunction(module, name)));
  for (const name of ["setTimeout", "setImmediate"] as const) definePromisified(name);
}
