// What the command line takes: the help text, and arguments read strictly, each mistake named.
import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { LIMITS, type LimitName } from "../../sandbox/limits.ts";

/** The process as a command sees it. */
export type Io = Pick<NodeJS.Process, "env" | "stdin" | "stdout" | "stderr" | "on" | "off">;

/** A mistake in what was typed: its message is all that is shown, and the exit code is 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export const USAGE = `Runs tools nobody on the team wrote: bundled, isolated, bounded

Usage
  glovebox run PATH [--input JSON | --input-file FILE | -] [options]   run a tool once
  glovebox dev PATH [--input JSON | --input-file FILE] [options]       run it again whenever its files change
  glovebox mcp PATH… [--http PORT] [options]                           serve tools to MCP clients, over stdio or HTTP
  glovebox test [PATH]                                                 run its own vitest files, in the real sandbox
  glovebox types [PATH…] [--out FILE]                                  write the types of a set of tools as a .d.ts
  glovebox inspect PATH [--json]                                       show its definition, imports and sizes
  glovebox init NAME                                                   write a new tool that works
  glovebox doctor [--json]                                             show what protects this machine, with evidence

PATH is a file or a folder with a tool in it

Options of run and dev, and of mcp but for the input and --log-places
  --input JSON        the input; {} unless given
  --input-file FILE   the input from a file: JSON, or any other text for a tool that takes one text
  --tenant ID         on whose behalf; "default" unless given
  --timeout-ms N      wall time, ${LIMITS.timeoutMs.min} to ${LIMITS.timeoutMs.max}; ${LIMITS.timeoutMs.default} unless given
  --cpu-ms N          CPU time, ${LIMITS.cpuMs.min} to ${LIMITS.cpuMs.max}
  --memory-mib N      memory, ${LIMITS.memoryMiB.min} to ${LIMITS.memoryMiB.max}; ${LIMITS.memoryMiB.default} unless given
  --allow-fetch HOST  let it send requests to HOST: host, host:port, *.host or an origin; may be given again
  --secret NAME=ENV   let it use the environment variable ENV as its secret NAME, towards the hosts of --allow-fetch
  --grant NAME        grant it a capability or an engine feature (kv, stringToCode, webAssembly …); may be given again
  --log-places        show where in the source each line of console comes from

Options of dev
  --inspect[=PORT]    let Chrome DevTools attach, at port 9229 unless given
  --inspect-brk[=PORT]  the same; wait for them, and stop at the tool's first line

Options of run
  -                   the input, as JSON, from stdin
  --time              show where the milliseconds went
  --json              print the whole result as one line of JSON

Options of mcp
  --tool NAME         serve one of Glovebox's own tools (python_exec, run-js …); may be given again
  --http PORT         over HTTP instead of stdin and stdout; 0 for a free port
  --host ADDRESS      where to listen; 127.0.0.1 unless given
  --allow-host NAME   a name that clients may call it by, if not this machine's own; may be given again

Exit codes: 0 success, 1 the tool or a limit failed, 2 usage or bundle error`;

export interface Arguments {
  readonly values: { readonly [name: string]: string | boolean | readonly string[] | undefined };
  readonly positionals: readonly string[];
}

/** @throws {UsageError} for an option there is not, or one without its value */
export function readArguments(args: readonly string[], options: ParseArgsOptionsConfig): Arguments {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
    return { values: values as Arguments["values"], positionals };
  } catch (thrown) {
    // Node's message ends with advice on escaping; its first sentence says what is wrong.
    const [message = ""] = (thrown as Error).message.split(/\. (?=To |Did )/);
    throw new UsageError(message);
  }
}

/** @throws {UsageError} unless there is exactly one */
export function onePositional(positionals: readonly string[], what: string): string {
  const [first, second] = positionals;
  if (first === undefined) throw new UsageError(`Expected ${what}, got nothing`);
  if (second !== undefined) throw new UsageError(`Expected one ${what}, got also "${second}"`);
  return first;
}

/** @throws {UsageError} unless it is a whole number within the limit's bounds */
export function readLimit(flag: string, text: Arguments["values"][string], name: LimitName): number | undefined {
  if (text === undefined) return undefined;
  const { min, max } = LIMITS[name];
  const value = Number(text);
  if (typeof text !== "string" || text.trim() === "" || !Number.isInteger(value) || value < min || value > max) {
    throw new UsageError(`--${flag}: expected a whole number from ${min} to ${max}, got "${String(text)}"`);
  }
  return value;
}
