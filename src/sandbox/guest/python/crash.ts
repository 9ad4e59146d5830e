// Turns a crash of the interpreter into an error of the tool that names the cause and the location in the author's files.

import { INTERPRETER_CRASHED } from "../../protocol/guest-messages.ts";

const HOME = "/home/tool/";
const FRAME = /^ {2}File "(.+)", line (\d+) in (.+)$/gm;
const MAX_FRAMES = 50;

/** Returns the frames of the author's files, which have no folder or are in the tool's folder. */
function framesOf(dump: string): string[] {
  const frames: string[] = [];
  for (const [, path = "", line, name] of dump.matchAll(FRAME)) {
    const file = path.startsWith(HOME) ? path.slice(HOME.length) : path;
    const isOurs = file.startsWith("/") || file.startsWith("<");
    if (!isOurs && frames.length < MAX_FRAMES) frames.push(`    at ${name} (${file}:${line}:1)`);
  }
  return frames;
}

/** Returns the name that Python would use, and a message. */
function describe(thrown: unknown): readonly [string, string] {
  const { name, message } = thrown as Partial<Error>;
  if (thrown instanceof RangeError) {
    if (/call stack/.test(thrown.message))
      return ["RecursionError", "The stack overflowed in the code of the interpreter"];
    // An array of JavaScript's that cannot be allocated.
    return ["MemoryError", `Python ran out of memory: ${thrown.message}`];
  }
  if (name === "Exit") {
    const code = /\((-?\d+)\)/.exec(message ?? "")?.[1] ?? "1";
    return ["SystemExit", `The program ended the process with exit code ${code}`];
  }
  // For a traceback of the harness whose state was corrupted: its last line.
  const reason = message?.trimEnd().split("\n").at(-1) ?? "for an unknown reason";
  return ["SystemError", `The interpreter crashed: ${reason}`];
}

export function toCrash(thrown: unknown, dump: string): Error {
  const [name, message] = describe(thrown);
  const error = new Error(message);
  error.name = name;
  Object.assign(error, { code: INTERPRETER_CRASHED });
  error.stack = [`${name}: ${message}`, ...framesOf(dump)].join("\n");
  return error;
}
