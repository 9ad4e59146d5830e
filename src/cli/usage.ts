// The help text of the command line, and what its parts share: the arguments of a command, and the error for a mistake in them.
import { LIMITS } from "../sandbox/contract/limits.ts";

/** A mistake in what was typed. The command line prints its message, on one line, and exits with 2. */
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
  --tenant ID         the tenant that is served; there is one without a name by default
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

Exit codes: 0 success, 1 the tool or a limit failed or the output could not be written, 2 usage or bundle error, 130 and 143 stopped by
SIGINT or SIGTERM before the end, 141 the reader of the output has gone. dev and mcp exit with 0 when they are stopped while they run`;

/** Output that cannot be written: a full disk. The command line prints its message and exits with 1. */
export class OutputError extends Error {
  override readonly name = "OutputError";
}

/** Errors of a write that are not about what was typed. */
const DISK_ERRORS: ReadonlySet<string | undefined> = new Set(["ENOSPC", "EDQUOT", "EIO"]);

/** Returns the error to throw for a file that cannot be written. */
export function toWriteError(file: string, thrown: unknown): Error {
  const { code } = thrown as NodeJS.ErrnoException;
  const message = `${file} cannot be written: ${String(code)}`;
  return DISK_ERRORS.has(code) ? new OutputError(message) : new UsageError(message);
}

/** The arguments of a command, checked against its table. */
export interface Arguments {
  /** By option: its value, `true` for a switch, a list for an option that may repeat. An option that was not given has no key. */
  readonly values: { readonly [name: string]: string | boolean | readonly string[] | undefined };
  readonly positionals: readonly string[];
  /** Whether `-` was given, which stands for stdin. */
  readonly stdin: boolean;
}
