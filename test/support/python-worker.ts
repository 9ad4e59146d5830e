// A worker process that runs Python, over its socket and with the host's protocol, without the process pool.
import { type ChildProcess, spawn } from "node:child_process";
import { readFile, rename, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { dirname, join } from "node:path";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { loadPythonAssets, type PythonAssets } from "../../src/bundler/python/python-assets.ts";
import { nodeArguments, packageFolders } from "../../src/host/workers/spawn/launch.ts";
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";
import { DEFAULT_LIMITS, type PartialLimits } from "../../src/sandbox/contract/limits.ts";
import type { PythonRun } from "../../src/sandbox/guest/python/python-run.ts";
import { FrameReader, FrameWriter } from "../../src/sandbox/protocol/frames.ts";
import type {
  CapabilityDescriptors,
  CapabilityEnvelope,
  GuestError,
} from "../../src/sandbox/protocol/guest-messages.ts";
import { pack, unpack } from "../../src/sandbox/protocol/length-prefixed.ts";
import { type IsolateLifetime, PROTOCOL_VERSION } from "../../src/sandbox/protocol/message-fields.ts";
import { type EndedMessage, WorkerMessageSchema } from "../../src/sandbox/protocol/worker-messages.ts";
import type { Deterministic } from "../../src/sandbox/worker/random-bytes.ts";
import { PATIENT_LIMITS } from "./patient-limits.ts";

const NOTHING = new Uint8Array(0);

/** Artifacts that the first process has created for the others of this test run. */
export interface PythonMade {
  readonly snapshot: Uint8Array;
  readonly codeCache: Uint8Array;
}

export interface PythonCall extends Partial<Omit<PythonRun, "code">> {
  readonly features?: readonly EngineFeature[];
  readonly isolateLifetime?: IsolateLifetime;
  /** Calls of one number are calls of one tool. */
  readonly toolId?: number;
  /** Calls of one number run in one isolate. */
  readonly session?: number;
  readonly limits?: PartialLimits;
  readonly granted?: readonly string[];
  readonly descriptors?: CapabilityDescriptors;
  readonly deterministic?: Deterministic;
  /** Answers capabilities by name. */
  readonly answer?: (name: string, input: unknown) => CapabilityEnvelope | undefined;
  /** Called when the call has an isolate. */
  readonly onStarted?: (seq: number) => void;
}

export interface PythonResult {
  readonly outcome: EndedMessage["outcome"];
  readonly usage: EndedMessage["usage"];
  /** Resolves when nothing of it runs any more. */
  readonly released: Promise<void>;
  /** Limits of an output. */
  readonly value: unknown;
  /** Limits of other texts. */
  readonly error: GuestError | undefined;
  readonly bytes: Uint8Array | undefined;
  /** `level: text`, in the order in which they came. */
  readonly logs: readonly string[];
  readonly progress: readonly unknown[];
}

interface OpenCall {
  readonly order: PythonCall;
  readonly logs: string[];
  readonly progress: unknown[];
  readonly resolve: (result: PythonResult) => void;
  readonly release: () => void;
  readonly released: Promise<void>;
}

export class PythonWorker implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #writer: FrameWriter;
  readonly #calls = new Map<number, OpenCall>();
  readonly #assets: PythonAssets;
  #lastSeq = 0;
  /** Loaded; what it has made on its way. */
  readonly ready: Promise<PythonMade>;
  #becomeReady: (made: PythonMade) => void = () => {};

  private constructor(child: ChildProcess, assets: PythonAssets) {
    this.#process = child;
    this.#assets = assets;
    const socket = child.stdio[3] as Socket;
    this.#writer = new FrameWriter(socket);
    this.ready = new Promise((resolve) => {
      this.#becomeReady = resolve;
    });
    const reader = new FrameReader();
    socket.on("data", (chunk: Buffer) => reader.push(chunk, ([message, ...parts]) => this.#receive(message, parts)));
    socket.on("error", () => {});
  }

  static async start(known: PythonMade = { snapshot: NOTHING, codeCache: NOTHING }): Promise<PythonWorker> {
    const artifacts = await loadSandboxArtifacts();
    const assets = await loadPythonAssets(artifacts);
    const script = artifacts.workerPath;
    const flags = nodeArguments({ script, packages: packageFolders(), jitless: false, permission: true });
    const child = spawn(process.execPath, flags, {
      stdio: ["ignore", "ignore", "inherit", "pipe"],
      env: { LIBC: "glibc" },
    });
    const worker = new PythonWorker(child, assets);
    const { preludeSource } = artifacts;
    worker.#writer.write({ type: "init", protocolVersion: PROTOCOL_VERSION }, [preludeSource, NOTHING, NOTHING]);
    const { code, sha256, wasm, stdlib } = assets;
    const parts = [code, known.codeCache, wasm, stdlib, known.snapshot];
    worker.#writer.write({ type: "python", sha256, coarseTime: false, warmIsolates: 1 }, parts);
    return worker;
  }

  #receive(message: Buffer, parts: readonly Buffer[]): void {
    const parsed = WorkerMessageSchema.parse(JSON.parse(message.toString()));
    if (parsed.type === "python-ready") {
      this.#becomeReady({ snapshot: parts[0] ?? NOTHING, codeCache: parts[1] ?? NOTHING });
    }
    if (!("seq" in parsed)) return;
    const call = this.#calls.get(parsed.seq);
    if (call === undefined) return;
    const text = parts[0]?.toString() ?? "";
    if (parsed.type === "started") call.order.onStarted?.(parsed.seq);
    else if (parsed.type === "log") call.logs.push(`${parsed.level}: ${text}`);
    else if (parsed.type === "progress") call.progress.push(JSON.parse(text));
    else if (parsed.type === "capability") {
      const envelope = call.order.answer?.(parsed.name, JSON.parse(text));
      const { seq, requestId } = parsed;
      if (envelope !== undefined) {
        this.#writer.write({ type: "capability-result", seq, requestId }, [JSON.stringify(envelope)]);
      }
    } else if (parsed.type === "released") {
      this.#calls.delete(parsed.seq);
      call.release();
    } else if (parsed.type === "ended") {
      if (parsed.released) {
        this.#calls.delete(parsed.seq);
        call.release();
      }
      const { outcome, usage } = parsed;
      const value: unknown = text === "" ? undefined : JSON.parse(text);
      const isOutput = outcome === "output";
      const { logs, progress, released } = call;
      const error = isOutput ? undefined : (value as GuestError | undefined);
      call.resolve({
        outcome,
        usage,
        released,
        value: isOutput ? value : undefined,
        error,
        bytes: parts[2],
        logs,
        progress,
      });
    }
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  run(code: string, order: PythonCall = {}): Promise<PythonResult> {
    const {
      features = ["webAssembly"],
      isolateLifetime = "call",
      limits,
      granted = [],
      descriptors,
      deterministic,
    } = order;
    const { fileName = "tool.py", mode = "exec", memoryMiB = 128, files, input, describe } = order;
    this.#lastSeq += 1;
    const seq = this.#lastSeq;
    const toolId = order.toolId ?? seq + 1_000_000;
    const { sha256 } = this.#assets;
    const profile = { sha256, isolateLifetime, prewarm: true, logSourceLocations: false, features, coarseTime: false };
    const tool = {
      ...profile,
      granted,
      denied: [],
      descriptors,
      limits: { ...DEFAULT_LIMITS, ...PATIENT_LIMITS, ...limits },
    };
    this.#writer.write({ type: "tool", toolId, ...tool });
    const run: PythonRun = {
      code,
      fileName,
      mode,
      memoryMiB,
      ...(files && { files }),
      ...(input !== undefined && { input }),
      ...(describe && { describe }),
    };
    const session = order.session === undefined ? undefined : { id: order.session, once: false };
    const call = { type: "call", seq, toolId, callId: "c1", tenantId: "acme", deterministic, session };
    this.#writer.write(call, [JSON.stringify(run)]);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    return new Promise((resolve) => {
      this.#calls.set(seq, { order, logs: [], progress: [], resolve, release, released });
    });
  }

  /** Ends the call last ordered. */
  cancel(): void {
    this.#writer.write({ type: "cancel", seq: this.#lastSeq });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = new Promise((resolve) => this.#process.once("close", resolve));
    this.#process.kill("SIGKILL");
    await gone;
  }
}

let made: Promise<PythonMade> | undefined;

/** Snapshot of one process that started without one, which takes seconds. Stored next to the sandbox's artifacts. */
export function sharedSnapshot(): Promise<PythonMade> {
  made ??= makeOrRead();
  return made;
}

async function makeOrRead(): Promise<PythonMade> {
  const artifacts = await loadSandboxArtifacts();
  const { key } = await loadPythonAssets(artifacts);
  const file = join(dirname(artifacts.workerPath), `python-${key}-${process.versions.v8}`);
  try {
    const [snapshot = NOTHING, codeCache = NOTHING] = unpack(await readFile(file));
    return { snapshot, codeCache };
  } catch {
    // It is made now.
  }
  await using worker = await PythonWorker.start();
  const fresh = await worker.ready;
  await writeFile(`${file}.${process.pid}`, pack([fresh.snapshot, fresh.codeCache]));
  await rename(`${file}.${process.pid}`, file);
  return fresh;
}
