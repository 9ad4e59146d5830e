// The command line as a process that goes on: what it has said so far, and a way to wait for what it is to say.
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** What `glovebox` runs. The set-up of the end-to-end tests builds it. */
export const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** Returns the environment of a user with this home folder, whose Node has compiled our sources before. */
export const cliEnvironment = (home: string): NodeJS.ProcessEnv => ({
  HOME: home,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
});

/** Variables of a server whose further processes and interpreters would only wait. */
export const NO_WARM_PROCESSES = { GLOVEBOX_WARM_PROCESSES: "0", GLOVEBOX_WARM_PYTHON_PROCESSES: "0" } as const;

/** Gives calls of a command line that states no limit more than the default, so that no test depends on how fast a process starts. */
export function patiently(args: readonly string[]): readonly string[] {
  const [command = "", ...rest] = args;
  if (!["run", "dev", "mcp"].includes(command) || rest.includes("--timeout-ms")) return args;
  return [command, "--timeout-ms", "60000", ...rest];
}

/** Room for a slow, busy machine. */
const PATIENCE_MS = 240_000;

/** A program in Node that a test starts, watches and ends. */
export class NodeProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly exit: Promise<number | null>;
  stdout = "";
  stderr = "";
  #onText: (() => void)[] = [];

  /**
   * @param args what Node is started with: its flags, the program and the arguments of the program
   * @param options `wrapper`: a program that becomes Node, and its arguments
   */
  constructor(
    args: readonly string[],
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly wrapper?: readonly string[] },
  ) {
    const { wrapper = [], ...rest } = options;
    const [program = "", ...all] = [...wrapper, process.execPath, ...args];
    this.#child = spawn(program, all, rest);
    this.exit = new Promise((resolve) => this.#child.on("exit", resolve));
    for (const name of ["stdout", "stderr"] as const) {
      this.#child[name]?.setEncoding("utf8").on("data", (text: string) => {
        this[name] += text;
        for (const look of this.#onText.splice(0)) look();
      });
    }
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** What matches in what it says from here on; what was said before is forgotten. */
  async says(stream: "stdout" | "stderr", pattern: RegExp): Promise<RegExpExecArray> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () =>
        reject(
          new Error(
            `Expected ${stream} to match ${pattern}, got ${JSON.stringify([this.stdout.slice(-1_000), this.stderr.slice(-1_000)])}`,
          ),
        ),
      PATIENCE_MS,
    );
    try {
      for (;;) {
        const found = pattern.exec(this[stream]);
        if (found !== null) {
          this[stream] = this[stream].slice(found.index + found[0].length);
          return found;
        }
        await Promise.race([new Promise<void>((resolve) => this.#onText.push(resolve)), late]);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exit;
  }
}

/** The command line, whose calls have time for a busy machine. Its home is the folder that it runs in, unless another is given. */
export class CliProcess extends NodeProcess {
  constructor(args: readonly string[], folder: string, home: string = folder) {
    super([MAIN, ...patiently(args)], { cwd: folder, env: cliEnvironment(home) });
  }
}
