// Runs a tool in a real isolate without the surrounding processes, for tests of what the guest receives and may attempt.
import { afterAll, expect } from "vitest";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { readAttachments, withBytes } from "../../src/host/contract/tool-value.ts";
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";
import type { JsonValue } from "../../src/sandbox/contract/errors.ts";
import type { CapabilityEnvelope, InvokeHeader } from "../../src/sandbox/protocol/guest-messages.ts";
import {
  createEngine,
  createLoadableBundle,
  type Engine,
  type LoadableBundle,
} from "../../src/sandbox/worker/isolate/engine.ts";
import type { GuestEnd, GuestListener } from "../../src/sandbox/worker/isolate/guest-call.ts";
import { createPreludeCache, ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";

import { DEFAULT_FEATURES } from "./dynamic-code.ts";
import { loadCrypto } from "./load-crypto.ts";

export const HEADER: InvokeHeader = {
  granted: [],
  denied: [],
  outputBytes: 8 * 1024 * 1024,
  logBytes: 256 * 1024,
  logLines: 1_000,
  maxCapabilityCalls: 1_000,
  maxPendingCapabilityCalls: 100,
  timers: 1_000,
};

/** A guest that has not answered by then is stopped with reason `cpu`. Room for a slow, busy machine. */
const DEADLINE_MS = 120_000;

let engine: Engine | undefined;
export async function sharedEngine(): Promise<Engine> {
  const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
  engine ??= createEngine({
    preludeSource,
    loadCrypto,
    readPlatformModule,
    preludeCache: createPreludeCache({ preludeSource, readPlatformModule, loadCrypto }),
  });
  return engine;
}

const openTools = new Set<GuestTool>();
afterAll(() => {
  expect([...openTools].map((tool) => tool.code.slice(0, 200))).toEqual([]);
});

/** Answers a capability call with an envelope, or with undefined for an answer that never arrives. */
export type Answer = (input: unknown) => CapabilityEnvelope | undefined | Promise<CapabilityEnvelope | undefined>;

export interface GuestSettings {
  readonly header?: Partial<InvokeHeader>;
  readonly memoryMiB?: number;
  /** DEFAULT_FEATURES unless given. */
  readonly features?: readonly EngineFeature[];
  readonly coarseTime?: boolean;
  readonly deadlineMs?: number;
  readonly capabilities?: { readonly [name: string]: Answer };
}

export interface GuestOutcomeOf<Output> extends GuestEnd {
  /** The parsed text. */
  readonly value: Output;
  /** `level: text` of this call's lines. */
  readonly logs: readonly string[];
  readonly progress: readonly unknown[];
}

export const toBundle = (code: string, codeCache: Uint8Array = new Uint8Array(0)): LoadableBundle =>
  createLoadableBundle("0".repeat(64), code, codeCache);

/** A bundle by hand: `topLevel` is evaluated, then `namespace`, an expression; `useBuiltin(chunk, name)` is there for both. */
export const bundleCode = (namespace: string, topLevel = ""): string =>
  `(async (register, useBuiltin) => {\n${topLevel}\nregister(${namespace});\n})`;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The output as JSON.stringify would have it, bytes included: an object of indices. */
function outputOf({ text, bytes }: GuestEnd): unknown {
  if (bytes === undefined) return parse(text);
  const attachments = readAttachments(Buffer.from(bytes.header), Buffer.from(bytes.data), "The output");
  const parsed = { value: parse(text) as JsonValue, textLength: 0, attachments, what: "The output" };
  return JSON.parse(JSON.stringify(withBytes(parsed, new AbortController().signal)));
}

/** One loaded tool, which runs any number of calls one after the other. */
export class GuestTool implements AsyncDisposable {
  readonly code: string;
  readonly isolate: ToolIsolate;
  readonly #settings: GuestSettings;
  #logs: string[] = [];
  #progress: unknown[] = [];
  /** Capability requests in the order in which they came, answered or not. */
  readonly requests: { readonly name: string; readonly text: string }[] = [];

  constructor(parts: { readonly engine: Engine; readonly code: string; readonly settings: GuestSettings }) {
    this.code = parts.code;
    this.#settings = parts.settings;
    const { memoryMiB = 64, features = DEFAULT_FEATURES, coarseTime = false } = parts.settings;
    this.isolate = new ToolIsolate(parts.engine, { memoryMiB, features, coarseTime });
    this.isolate.boot();
    openTools.add(this);
  }

  readonly listener: GuestListener = {
    onLog: (level, text) => {
      this.#logs.push(`${level}: ${text}`);
    },
    onProgress: (text) => {
      this.#progress.push(parse(text));
    },
    onCapability: (requestId, name, text) => {
      this.requests.push({ name, text });
      const answer = this.#settings.capabilities?.[name] ?? (() => ({ ok: true, value: null }) as const);
      void Promise.resolve(answer(parse(text))).then((envelope) => {
        if (envelope !== undefined) this.isolate.deliver(requestId, JSON.stringify(envelope));
      });
    },
  };

  load(bundle: LoadableBundle = toBundle(this.code), deadlineMs?: number): Promise<GuestOutcomeOf<unknown>> {
    return this.#run(() => this.isolate.load(bundle, this.listener), deadlineMs);
  }

  describe(): Promise<GuestOutcomeOf<unknown>> {
    return this.#run(() => this.isolate.describe());
  }

  call<Output = unknown>(input: unknown = {}, callId = "c1"): Promise<GuestOutcomeOf<Output>> {
    const header = JSON.stringify({ ...HEADER, ...this.#settings.header });
    const call = { header, input: JSON.stringify(input), callId, tenantId: "acme" };
    return this.#run<Output>(() => this.isolate.call(call, this.listener));
  }

  async #run<Output>(
    enter: () => Promise<GuestEnd>,
    deadlineMs: number = this.#settings.deadlineMs ?? DEADLINE_MS,
  ): Promise<GuestOutcomeOf<Output>> {
    this.#logs = [];
    this.#progress = [];
    const timer = setTimeout(() => void this.isolate.dispose("cpu"), deadlineMs);
    try {
      const end = await enter();
      return { ...end, value: outputOf(end) as Output, logs: this.#logs, progress: this.#progress };
    } finally {
      clearTimeout(timer);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.isolate.dispose();
    openTools.delete(this);
  }
}

/** Opens a tool from a bundle's code, without loading it. */
export async function openCode(code: string, settings: GuestSettings = {}): Promise<GuestTool> {
  return new GuestTool({ engine: await sharedEngine(), code, settings });
}

/** A loaded tool whose `execute` is this function's source: it may use nothing from around it. */
export async function openGuest<Input, Output>(
  execute: string | ((input: Input, ctx: never) => Output | Promise<Output>),
  settings: GuestSettings = {},
): Promise<GuestTool> {
  const tool = await openCode(bundleCode(`{ default: ${execute} }`), settings);
  // A deadline of the settings is that of calls.
  const loaded = await tool.load(undefined, DEADLINE_MS);
  if (loaded.outcome === "ready") return tool;
  await tool[Symbol.asyncDispose]();
  throw new Error(`Expected the tool to load, got ${loaded.outcome}: ${loaded.text}`);
}

/** Runs one call in an isolate of its own. */
export async function runGuest<Input, Output>(
  execute: string | ((input: Input, ctx: never) => Output | Promise<Output>),
  settings: GuestSettings & { readonly input?: Input } = {},
): Promise<GuestOutcomeOf<Awaited<Output>>> {
  await using tool = await openGuest(execute, settings);
  return await tool.call<Awaited<Output>>(settings.input);
}

/** The output of a call that must succeed. */
export async function inGuest<Input, Output>(
  execute: string | ((input: Input, ctx: never) => Output | Promise<Output>),
  input?: Input,
): Promise<Awaited<Output>> {
  const end = await runGuest(execute, input === undefined ? {} : { input });
  if (end.outcome !== "output") throw new Error(`Expected an output, got ${end.outcome}: ${end.text}`);
  return end.value;
}

/** The function gives in a guest what it gives here in Node, as JSON. It may use nothing from around it. */
export async function expectLikeNode<Input, Output>(
  run: (input: Input) => Output | Promise<Output>,
  input: Input,
): Promise<void> {
  const here = JSON.parse(JSON.stringify((await run(input)) ?? null)) as unknown;
  expect(await inGuest(run, input)).toEqual(here);
}
