// The interpreter's own end, as an error of the tool's: what was asked of it that it does not survive, and where in the author's files.

import { INTERPRETER_CRASHED } from "../../protocol/guest-messages.ts";

const HOME = "/home/tool/";
const FRAME = /^ {2}File "(.+)", line (\d+) in (.+)$/gm;
const MAX_FRAMES = 50;

/** What of it a failure's stack shows: frames of the author's, which have no folder or the tool's own. */
function framesOf(dump: string): string[] {
  const frames: string[] = [];
  for (const [, path = "", line, name] of dump.matchAll(FRAME)) {
    const file = path.startsWith(HOME) ? path.slice(HOME.length) : path;
    const isOurs = file.startsWith("/") || file.startsWith("<");
    if (!isOurs && frames.length < MAX_FRAMES) frames.push(`    at ${name} (${file}:${line}:1)`);
  }
  return frames;
}

/** [name, message]: as Python would name it. */
function describe(thrown: unknown): readonly [string, string] {
  const { name, message } = thrown as Partial<Error>;
  if (thrown instanceof RangeError) return ["RecursionError", "The stack overflowed in Python's own code"];
  if (name === "Exit") {
    const code = /\((-?\d+)\)/.exec(message ?? "")?.[1] ?? "1";
    return ["SystemExit", `The process was told to exit with code ${code}, without ending its run`];
  }
  // Of a traceback of our own harness, which was spoilt, what it ends with.
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
