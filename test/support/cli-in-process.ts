// The command line without a separate process: `main.ts` after the check of Node's version, with collected output. Its working
// directory and home are those of this process, so a test file calls `enterFolder` first and must run in its own process.
import { EventEmitter } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { runCli } from "../../src/cli/cli.ts";
import { ProcessIo } from "../../src/cli/terminal/process-io.ts";
import { patiently } from "./cli-process.ts";

export interface CliEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface CliSurroundings {
  readonly stdin?: string | Buffer | undefined;
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Destination of the output. Default: it is collected. */
  readonly stdout?: Writable | undefined;
  readonly stderr?: Writable | undefined;
}

/** Runs one command line to its end. */
export async function runInProcess(args: readonly string[], surroundings: CliSurroundings = {}): Promise<CliEnd> {
  const { stdin = "", env = {} } = surroundings;
  const written = { stdout: "", stderr: "" };
  const collect = (name: "stdout" | "stderr"): Writable =>
    new Writable({
      decodeStrings: false,
      write(text: string, _encoding, done) {
        written[name] += text;
        done();
      },
    });
  const proc = Object.assign(new EventEmitter(), {
    env,
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: surroundings.stdout ?? collect("stdout"),
    stderr: surroundings.stderr ?? collect("stderr"),
    exitCode: undefined as number | undefined,
    // Only a command that does not end by itself is ended so: its test times out.
    exit: (): void => {},
  });
  await new ProcessIo(proc as unknown as NodeJS.Process).run((io) => runCli(patiently(args), io));
  // A process ends when what it has printed is written, or cannot be.
  for (const stream of [proc.stdout, proc.stderr]) {
    stream.end();
    await finished(stream).catch(() => {});
  }
  return { code: proc.exitCode ?? null, ...written };
}

/**
 * Makes a new folder with these files the working directory and the home of this process.
 * @returns the folder, and a function that leaves and removes it
 */
export async function enterFolder(files: {
  readonly [name: string]: string;
}): Promise<{ readonly folder: string; readonly leave: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-cli-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const before = { cwd: process.cwd(), home: process.env.HOME };
  process.chdir(folder);
  process.env.HOME = folder;
  const leave = async (): Promise<void> => {
    process.chdir(before.cwd);
    process.env.HOME = before.home;
    await rm(folder, { recursive: true, force: true });
  };
  return { folder, leave };
}
