// One warm process of the TypeScript compiler. It checks one file at a time against one declaration file, has an empty
// environment, can read nothing but the compiler's own declaration files, and is killed when a check takes too long or
// too much memory. type-checker.ts queues the checks and starts these processes.
import { type ChildProcess, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { ProcessMeter } from "../../workers/health/process-meter.ts";
import type { Compiler } from "./compiler.ts";
import { GUEST_GLOBALS } from "./guest-globals.ts";
import { RpcConnection } from "./json-rpc.ts";

/** Folder of the files that exist for the compiler only. No folder of the machine has this name. */
const FOLDER = "/glovebox-code";
export const CODE_FILE: string = `${FOLDER}/code.ts`;
export const API_FILE: string = `${FOLDER}/api.d.ts`;
const GLOBALS_FILE = `${FOLDER}/globals.d.ts`;
const CONFIG_FILE = `${FOLDER}/tsconfig.json`;

const CONFIG = JSON.stringify({
  compilerOptions: {
    strict: true,
    useUnknownInCatchVariables: false,
    noEmit: true,
    skipLibCheck: true,
    target: "esnext",
    module: "esnext",
    moduleResolution: "bundler",
    lib: ["esnext"],
    types: [],
    // Code that models write relies on these, as JavaScript allows.
    allowUnreachableCode: true,
    allowUnusedLabels: true,
  },
  files: ["globals.d.ts", "api.d.ts", "code.ts"],
});

/** How often the memory of a process that checks is read, in ms. */
const WATCH_MS = 20;

const SnapshotSchema = z.looseObject({
  snapshot: z.number(),
  projects: z.array(z.looseObject({ id: z.string(), configFileName: z.string() })).max(16),
});
type RawDiagnostic = {
  readonly fileName?: string | undefined;
  readonly pos: number;
  readonly end: number;
  readonly code: number;
  readonly category: number;
  readonly text: string;
  readonly messageChain?: readonly RawDiagnostic[] | null | undefined;
  readonly relatedInformation?: readonly RawDiagnostic[] | null | undefined;
};
const DiagnosticSchema: z.ZodType<RawDiagnostic> = z.looseObject({
  fileName: z.string().optional(),
  pos: z.number(),
  end: z.number(),
  code: z.number(),
  category: z.number(),
  text: z.string(),
  get messageChain() {
    return z.array(DiagnosticSchema).nullish();
  },
  get relatedInformation() {
    return z.array(DiagnosticSchema).nullish();
  },
});
const DiagnosticsSchema = z.array(DiagnosticSchema).nullable();
const TypeSchema = z.looseObject({ id: z.union([z.number(), z.string()]) }).nullable();

/** A diagnostic of the compiler, and the type at its position. */
export interface CompilerDiagnostic extends RawDiagnostic {
  readonly type?: string | undefined;
}

/** Maximum number of diagnostics of a check, and of those whose type is looked up. */
const MAX_DIAGNOSTICS = 20;
const MAX_TYPES = 5;
const IS_ERROR = 1;
/**
 * Messages about types that are `any` because none is written. In code that models write they are not treated as
 * errors. The option stays on, because without it an empty array that is filled later has elements of type `never`.
 */
const isImplicitAny = (code: number): boolean => code >= 7_005 && code <= 7_057;

export interface CheckerProcessOptions {
  readonly compiler: Compiler;
  /** Largest resident memory in MiB. */
  readonly memoryMiB: number;
}

const parse = <Value>(schema: z.ZodType<Value>, answer: unknown): Value => {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new ToolError("INTERNAL", "The type checker sent an invalid answer");
};

export class CheckerProcess implements Disposable {
  readonly #compiler: Compiler;
  readonly #maxBytes: number;
  readonly #child: ChildProcess;
  /** Undefined if the process could not be started. */
  readonly #meter: ProcessMeter | undefined;
  readonly #rpc: RpcConnection;
  readonly #files = new Map<string, string>();
  /** The snapshot of the last check, which the next one builds on. */
  #snapshot: number | undefined;
  #isEnded = false;
  checks = 0;

  constructor({ compiler, memoryMiB }: CheckerProcessOptions) {
    this.#compiler = compiler;
    this.#maxBytes = memoryMiB * 1024 * 1024;
    this.#files.set(CONFIG_FILE, CONFIG).set(GLOBALS_FILE, GUEST_GLOBALS);
    const callbacks = "readFile,fileExists,directoryExists,getAccessibleEntries,realpath";
    this.#child = spawn(compiler.path, ["--api", "--async", "--cwd", FOLDER, `--callbacks=${callbacks}`], {
      // Go's collector keeps the heap below its limit as long as that is possible. Two threads: a check is short.
      env: { GOMEMLIMIT: `${Math.floor(memoryMiB * 0.75)}MiB`, GOMAXPROCS: "2" },
      cwd: tmpdir(),
      stdio: ["pipe", "pipe", "ignore"],
      windowsHide: true,
    });
    const { pid } = this.#child;
    this.#meter = pid === undefined ? undefined : new ProcessMeter(pid);
    this.#rpc = new RpcConnection(
      (bytes) => void this.#child.stdin?.write(bytes),
      (method, params) => this.#answer(method, params),
    );
    const lost = (): void => this.kill(new ToolError("INTERNAL", "The process of the type checker has ended"));
    this.#child.once("error", lost).once("exit", lost);
    this.#child.stdin?.on("error", () => {});
    this.#child.stdout?.on("data", (chunk: Buffer) => {
      try {
        this.#rpc.receive(chunk);
      } catch (thrown) {
        this.kill(thrown);
      }
    });
    // The host may exit while the process waits for its next check.
    this.#child.unref();
    for (const pipe of [this.#child.stdin, this.#child.stdout]) (pipe as { unref?: () => void } | null)?.unref?.();
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Whether a path is one of the compiler's own declaration files. */
  #isLibrary(path: string): boolean {
    const { folder, libraries } = this.#compiler;
    return libraries.has(path.slice(folder.length + 1)) && join(folder, path.slice(folder.length + 1)) === path;
  }

  /** Answers the compiler's questions about files. `null` and `undefined` let it read the machine's file: only for its own libraries. */
  #answer(method: string, params: unknown): unknown {
    const path = Array.isArray(params) ? params[0] : params;
    if (typeof path !== "string") return false;
    switch (method) {
      case "readFile":
        return this.#isLibrary(path) ? null : { content: this.#files.get(path) ?? null };
      case "fileExists":
        return this.#files.has(path) || this.#isLibrary(path);
      case "directoryExists":
        return path === "/" || path === FOLDER || path === this.#compiler.folder;
      case "getAccessibleEntries":
        return { files: [], directories: [] };
      default:
        return path;
    }
  }

  /**
   * Checks code. The caller waits for it before the next check.
   * @param signal its abort kills the process, and its reason is the rejection
   * @throws {ToolError} MEMORY_LIMIT; INTERNAL if the process fails; the signal's reason
   */
  async check(code: string, declarations: string, signal: AbortSignal): Promise<readonly CompilerDiagnostic[]> {
    const onAbort = (): void => this.kill(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const watch = setInterval(() => this.#checkMemory(), WATCH_MS);
    try {
      signal.throwIfAborted();
      this.checks += 1;
      return await this.#check(code, declarations);
    } finally {
      clearInterval(watch);
      signal.removeEventListener("abort", onAbort);
    }
  }

  #checkMemory(): void {
    // No memory is known where the kernel does not report it.
    if ((this.#meter?.read()?.rssBytes ?? 0) <= this.#maxBytes) return;
    const message = `Type checking needed more than ${this.#maxBytes / 1024 / 1024} MiB of memory`;
    this.kill(new ToolError("MEMORY_LIMIT", message));
  }

  async #check(code: string, declarations: string): Promise<readonly CompilerDiagnostic[]> {
    const changed = [API_FILE, CODE_FILE].filter(
      (file, index) => this.#files.get(file) !== [declarations, code][index],
    );
    this.#files.set(API_FILE, declarations).set(CODE_FILE, code);
    const before = this.#snapshot;
    if (before === undefined) await this.#rpc.request("initialize", null);
    const update = before === undefined ? { openProjects: [CONFIG_FILE] } : { fileChanges: { changed } };
    const { snapshot, projects } = parse(SnapshotSchema, await this.#rpc.request("updateSnapshot", update));
    this.#snapshot = snapshot;
    if (before !== undefined && before !== snapshot) await this.#rpc.request("release", { snapshot: before });
    const project = projects.find(({ configFileName }) => configFileName === CONFIG_FILE)?.id;
    if (project === undefined) throw new ToolError("INTERNAL", "The type checker did not open its project");
    const at = { snapshot, project, file: CODE_FILE };
    const answers = await Promise.all([
      this.#rpc.request("getSyntacticDiagnostics", at),
      this.#rpc.request("getSemanticDiagnostics", at),
    ]);
    const found = answers.flatMap((answer) => parse(DiagnosticsSchema, answer) ?? []);
    const errors = found
      .filter(({ category, code: number }) => category === IS_ERROR && !isImplicitAny(number))
      .slice(0, MAX_DIAGNOSTICS);
    return await Promise.all(errors.map((error, index) => (index < MAX_TYPES ? this.#withType(error, at) : error)));
  }

  async #withType(
    error: RawDiagnostic,
    at: { readonly snapshot: number; readonly project: string },
  ): Promise<CompilerDiagnostic> {
    const { snapshot, project } = at;
    const position = { snapshot, project, file: CODE_FILE, position: error.pos };
    const type = parse(TypeSchema, await this.#rpc.request("getTypeAtPosition", position));
    if (type === null) return error;
    const text = await this.#rpc.request("typeToString", { snapshot, project, type: type.id });
    return typeof text === "string" ? { ...error, type: text } : error;
  }

  /** Ends the process at once. Its pending check rejects with the reason. */
  kill(reason: unknown): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#child.kill("SIGKILL");
    this.#rpc.end(reason);
    this.#meter?.[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.kill(new ToolError("CANCELLED", "The type checker was closed"));
  }
}
