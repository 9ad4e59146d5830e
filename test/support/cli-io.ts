// The I/O of a command of the command line, without a process. Output is collected.
import { Writable } from "node:stream";
import { CliOutput } from "../../src/cli/terminal/output.ts";
import type { Io } from "../../src/cli/terminal/process-io.ts";

export interface TestIo {
  readonly io: Io;
  readonly written: { stdout: string; stderr: string };
}

/** @param stop tells the command to stop when it aborts */
export function createTestIo(stop: AbortSignal = new AbortController().signal): TestIo {
  const written = { stdout: "", stderr: "" };
  const outputTo = (name: "stdout" | "stderr"): CliOutput => {
    const stream = new Writable({
      decodeStrings: false,
      write(text: string, _encoding, done) {
        written[name] += text;
        done();
      },
    });
    return new CliOutput(stream, () => {});
  };
  const io = {
    env: {},
    stdin: process.stdin,
    stdout: outputTo("stdout"),
    stderr: outputTo("stderr"),
    stop,
    setStopTimeout() {},
    exitAfterCommand() {},
  };
  return { io, written };
}
