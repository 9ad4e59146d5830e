// Entry point of the worker process. It reads messages from the socket on file descriptor 3, runs calls, and writes messages back. It has
// access to nothing else. It ends only with SIGKILL, because process.exit() waits for busy isolates.
import { closeSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { type Frame, FrameReader, FrameWriter } from "../protocol/frames.ts";
import type { ExtractionProfile, PythonMessage, ToolProfile } from "../protocol/host-messages.ts";
import { pack, unpack } from "../protocol/length-prefixed.ts";
import { PROTOCOL_VERSION } from "../protocol/message-fields.ts";
import { ON_DEMAND_FILE, type PlatformModuleName, platformModuleFile } from "../protocol/platform-modules.ts";
import { readHostMessage } from "../protocol/read-host-message.ts";
import type { Turn } from "../protocol/turns.ts";
import { ActiveCall } from "./active-call.ts";
import { type Assignment, toToolProfile } from "./assignment.ts";
import { CpuShare } from "./cpu-share.ts";
import { WorkerInspection } from "./inspection.ts";
import { createEngine, type Engine, type LoadCrypto } from "./isolate/engine.ts";
import { createModuleCaches, createPreludeCache } from "./isolate/tool-isolate.ts";
import { IsolatePool } from "./isolate-pool.ts";
import { PYTHON_ASSETS } from "./warm-python-isolates.ts";

const CPU_CHECK_MS = 10;
/** How often in ms a process looks whether no call runs, to load the second script then. Many processes end before and never need it. */
const IDLE_LOAD_MS = 2_000;
const CORES = availableParallelism();

const NOTHING = new Uint8Array(0);

/** Reads a platform module from the worker's own directory, the only one that it can read. */
const readPlatformModule = (name: PlatformModuleName): string =>
  readFileSync(join(import.meta.dirname, platformModuleFile(name)), "utf8");

const die = (): void => {
  process.kill(process.pid, "SIGKILL");
  // The first process of a PID namespace ignores signals from itself, but not abort().
  process.abort();
};

type OnDemand = typeof import("./on-demand.ts");
let onDemand: OnDemand | undefined;

/** Returns the worker's second script, which is in the same directory. */
function loadOnDemand(): OnDemand {
  const path = join(import.meta.dirname, ON_DEMAND_FILE);
  onDemand ??= createRequire(path)(path) as OnDemand;
  return onDemand;
}

const loadCrypto: LoadCrypto = () => loadOnDemand().GuestCrypto;
/** Parses the turns of a recording, which the host has validated. */
const toTurns = (text: string): Turn[] => (text === "" ? [] : loadOnDemand().TurnsSchema.parse(JSON.parse(text)));

class Worker {
  readonly #writer: FrameWriter;
  readonly #calls = new Map<number, ActiveCall>();
  readonly #tools = new Map<number, ToolProfile>();
  #engine: Engine | undefined;
  /** File names of the wheels that the host has sent. */
  readonly #wheels: string[] = [];
  #pool: IsolatePool | undefined;
  #inspection: WorkerInspection | undefined;
  readonly #cpuShare = new CpuShare();
  #cpuCheck: NodeJS.Timeout | undefined;

  /** The host may send what it announces: it started this process. */
  readonly #reader = new FrameReader({ trustsLengths: true });

  constructor(socket: Socket) {
    this.#writer = new FrameWriter(socket);
  }

  /** Handles the messages in bytes of the host. The memory of the bytes may be reused afterwards. */
  read(bytes: Buffer): void {
    this.#reader.push(bytes, (frame) => this.#handle(frame));
  }

  #handle(frame: Frame): void {
    const message = readHostMessage(frame[0].toString());
    const text = (index: number): string => frame[index]?.toString() ?? "";
    switch (message.type) {
      case "init":
        if (message.protocolVersion !== PROTOCOL_VERSION) throw new Error("The host has another version");
        if (message.inspect) this.#inspection = new WorkerInspection((sent, parts) => this.#writer.write(sent, parts));
        this.#open(text(1), frame[2] ?? new Uint8Array(0), frame[3] ?? new Uint8Array(0));
        break;
      case "python":
        void this.#openPython(message, frame).catch(die);
        break;
      case "python-package":
        this.#addWheel(message.fileName, frame[1]);
        break;
      case "bundle":
        this.#pool?.addBundle(message.sha256, text(1), frame[2] ?? new Uint8Array(0), message.modules);
        break;
      case "tool":
        this.#tools.set(message.toolId, toToolProfile(message, message.sha256 === this.#pool?.python?.sha256));
        break;
      case "extract":
        this.#start(message.seq, message, undefined, "");
        break;
      case "call": {
        const tool = this.#tools.get(message.toolId);
        if (tool === undefined) throw new Error("Received a call before its tool");
        const header = text(2);
        const bytes = frame[3] === undefined || header === "" ? undefined : { header, data: frame[3] };
        const { seq, callId, tenantId, stream, session, prewarm, mainThreadMs } = message;
        const deterministic = message.deterministic && { ...message.deterministic, turns: toTurns(text(4)) };
        const call = { tool, callId, tenantId, stream, deterministic, bytes, session, prewarm, mainThreadMs };
        this.#start(seq, tool, call, text(1));
        if (session?.once === true) {
          this.#tools.delete(message.toolId);
          this.#pool?.forgetBundle(tool.sha256);
        }
        break;
      }
      case "watch-idle":
        this.#calls.get(message.seq)?.watchIdle(message.isWatched);
        break;
      case "cancel":
        this.#calls.get(message.seq)?.cancel();
        break;
      case "end-session":
        this.#pool?.endSession(message.session);
        break;
      case "forget-tool":
        this.#forgetTool(message.toolId, message.bundle);
        break;
      case "make-module-caches":
        if (this.#engine !== undefined)
          this.#writer.write({ type: "module-caches" }, [pack(createModuleCaches(this.#engine))]);
        break;
      case "inspect":
      case "inspect-go":
        this.#inspect(message, text(1));
        break;
      case "ping":
        this.#writer.write({ type: "pong" });
        break;
      case "credit":
        this.#calls.get(message.seq)?.credit(message.chunks);
        break;
      case "capability-result":
        this.#calls.get(message.seq)?.deliver(message.requestId, text(1), message.mainThreadMs, message.latencyMs);
        break;
      default:
        throw new Error(`Received a message of an unknown type: ${(message as { readonly type: unknown }).type}`);
    }
  }

  #inspect({ type, seq }: { readonly type: "inspect" | "inspect-go"; readonly seq: number }, text: string): void {
    if (this.#inspection === undefined) throw new Error("This worker was not started for inspection");
    if (type === "inspect") this.#inspection.receive(seq, text);
    else this.#inspection.go(seq);
  }

  /** Creates the engine, and the prelude's code cache if the host has none yet. The cache is safe to share: no tool code has run here. */
  #open(preludeSource: string, known: Uint8Array, packedCaches: Uint8Array): void {
    const sources = { preludeSource, readPlatformModule, loadCrypto };
    const created = known.byteLength > 0 ? [] : [createPreludeCache(sources)];
    const engine = createEngine({
      ...sources,
      preludeCache: created[0] ?? known,
      moduleCaches: unpack(packedCaches),
    });
    this.#engine = engine;
    this.#pool = new IsolatePool(engine, {
      isCalm: () => this.#isCalm(),
      onStuck: () => this.#writer.write({ type: "stuck" }),
    });
    this.#writer.write({ type: "ready", protocolVersion: PROTOCOL_VERSION }, created);
    this.#loadWhenIdle();
  }

  #loadWhenIdle(): void {
    setTimeout(() => {
      if (this.#calls.size === 0) loadOnDemand();
      else this.#loadWhenIdle();
    }, IDLE_LOAD_MS);
  }

  /** Removes a tool. Its running calls continue, but their isolates are not kept. */
  #forgetTool(toolId: number, withBundle: boolean): void {
    const tool = this.#tools.get(toolId);
    if (tool === undefined) return;
    tool.isForgotten = true;
    this.#tools.delete(toolId);
    this.#pool?.forgetTool(toolId);
    if (withBundle) this.#pool?.forgetBundle(tool.sha256);
  }

  #addWheel(fileName: string, bytes: Buffer | undefined): void {
    if (this.#engine === undefined || bytes === undefined) throw new Error("Received a wheel before init");
    this.#wheels.push(fileName);
    this.#engine.assets.set(`wheel:${fileName}`, bytes);
    this.#engine.assets.set("wheels", Buffer.from(JSON.stringify(this.#wheels)));
  }

  /** Loads Python. The artifacts are safe to share: no tool code has run in this process. */
  async #openPython({ sha256, coarseTime, warmIsolates }: PythonMessage, frame: Frame): Promise<void> {
    const [engine, pool] = [this.#engine, this.#pool];
    if (engine === undefined || pool === undefined) throw new Error("Received python before init");
    const [, code = "", codeCache = NOTHING, ...assets] = frame;
    pool.addBundle(sha256, code.toString(), codeCache);
    for (const [index, name] of PYTHON_ASSETS.entries()) {
      const asset = assets[index];
      if (asset !== undefined && asset.byteLength > 0) engine.assets.set(name, asset);
    }
    const { snapshot, codeCache: createdCache } = await pool.openPython(sha256, { coarseTime, warmIsolates });
    this.#writer.write({ type: "python-ready" }, [snapshot, createdCache]);
  }

  #start(seq: number, profile: ExtractionProfile, call: Assignment["call"], input: string): void {
    const { sha256, limits, features, coarseTime } = profile;
    const bundle = this.#pool?.bundle(sha256);
    if (this.#pool === undefined || bundle === undefined) throw new Error("Received a call before its bundle");
    const assignment: Assignment = { seq, bundle, limits, features, coarseTime, call };
    const active = new ActiveCall(assignment, {
      pool: this.#pool,
      cpuShare: this.#cpuShare,
      send: (sent, parts) => this.#writer.write(sent, parts),
      flush: () => this.#writer.flush(),
      inspection: this.#inspection,
    });
    this.#calls.set(seq, active);
    if (this.#cpuCheck === undefined) {
      this.#cpuShare.begin();
      this.#cpuCheck = setInterval(() => this.#checkCpu(), CPU_CHECK_MS);
    }
    void active.run(input).then(() => {
      this.#calls.delete(seq);
      void this.#pool?.python?.refill();
      return this.#pool?.warmIsolates.refill();
    }, die);
  }

  #isCalm(): boolean {
    let working = 0;
    for (const call of this.#calls.values()) if (call.isWorking) working += 1;
    return working === 0 || working < CORES - 1;
  }

  /** Charges CPU time and reports progress of the running calls. One interval serves all calls, and stops when none is left. */
  #checkCpu(): void {
    const calls = [...this.#calls.values()];
    for (const call of calls) {
      call.announce();
      call.reportIdle();
    }
    this.#cpuShare.share(calls);
    if (this.#calls.size > 0) return;
    clearInterval(this.#cpuCheck);
    this.#cpuCheck = undefined;
  }
}

// Close the file descriptors that the host process inherited from its parent. The arguments list them.
for (const descriptor of process.argv.slice(2)) {
  try {
    closeSync(Number(descriptor));
  } catch {
    // A wrapper process has already closed it.
  }
}
// A terminal or service manager that signals the whole process group means the host, which must finish its calls first.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
// The host is gone, or sent an invalid message.
process.on("uncaughtException", die);
process.on("unhandledRejection", die);
/** Bytes of one read. Without a buffer of its own, the socket allocates and shrinks 64 KiB for each message. */
const READ_BYTES = 64 * 1024;
const onread = {
  buffer: new Uint8Array(READ_BYTES),
  callback: (count: number, buffer: Uint8Array): boolean => {
    worker.read(Buffer.from(buffer.buffer, buffer.byteOffset, count));
    return true;
  },
};
const socket = new Socket({ fd: 3, readable: true, writable: true, onread });
const worker = new Worker(socket);
socket.on("error", die).on("end", die).on("close", die);
