// The help text of the command line, and types that commands share: parsed arguments and usage errors.
import { LIMITS } from "../sandbox/contract/limits.ts";

/** An error in the arguments. The command line prints its message on one line and exits with 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export const USAGE = `Runs untrusted tools: bundled, isolated, with limits

Usage
  glovebox run PATH [--input JSON | --input-file FILE | -] [options]   run a tool once
  glovebox dev PATH [--input JSON | --input-file FILE] [options]       run it again whenever its files change
  glovebox mcp PATH… [--http PORT] [options]                           serve tools to MCP clients, over stdio or HTTP
  glovebox test [PATH]                                                 run a tool's vitest files in the real sandbox
  glovebox types [PATH…] [--out FILE]                                  write the types of a set of tools as a .d.ts
  glovebox inspect PATH [--json]                                       show a tool's definition, imports and sizes
  glovebox init NAME                                                   create a new tool that works
  glovebox serve [options]                                             host the tools of many tenants behind an HTTP API
  glovebox config [options]                                            print the configuration that serve would use
  glovebox db migrate | check | backup FILE | restore FILE | rotate-key FILE   maintain the database of serve
  glovebox login [URL]                                                 store the API key of a server, read from stdin
  glovebox deploy PATH [--alias NAME] [--canary 10%] [--approve]       deploy a tool to the server
  glovebox rollback NAME [--alias NAME]                                go back to what a release ran before
  glovebox call NAME [--input JSON] [--async]                          call a tool on the server
  glovebox tools                                                       list the tools on the server
  glovebox calls [--tool NAME] [--state STATE]                         list the latest calls
  glovebox logs NAME|ID [-f | --follow]                                show the log lines of a tool's calls, or of one call
  glovebox secrets list | set NAME --allow-host HOST | delete NAME     manage the secrets of a tenant
  glovebox top [--json]                                                show running calls, tools and processes of the server
  glovebox doctor [--json]                                             show what protects this machine, with evidence

PATH is a file or a folder that contains a tool

Options of run, dev and mcp (mcp has no input options and no --log-places)
  --input JSON        the input (default: {})
  --input-file FILE   read the input from a file: JSON, or any text for a tool with one text input
  --tenant ID         the tenant to serve (default: a single tenant without a name)
  --timeout-ms N      wall time, ${LIMITS.timeoutMs.min} to ${LIMITS.timeoutMs.max} (default: ${LIMITS.timeoutMs.default})
  --cpu-ms N          CPU time, ${LIMITS.cpuMs.min} to ${LIMITS.cpuMs.max}
  --memory-mib N      memory, ${LIMITS.memoryMiB.min} to ${LIMITS.memoryMiB.max} (default: ${LIMITS.memoryMiB.default})
  --allow-fetch HOST  allow requests to HOST: host, host:port, *.host or an origin; repeatable
  --secret NAME=ENV   provide the environment variable ENV as the secret NAME, for the hosts of --allow-fetch; repeatable
  --grant NAME        grant a capability or an engine feature (kv, stringToCode, webAssembly …); repeatable
  --log-places        show the source location of each console call

Options of dev
  --inspect[=PORT]    let Chrome DevTools attach (default port: 9229)
  --inspect-brk[=PORT]  like --inspect, but wait for DevTools and pause at the tool's first line

Options of run
  -                   read the input from stdin, as JSON
  --time              show the duration of each step
  --trace FILE        write the timeline of the call, its logs, input and output as an HTML page
  --otel              send the call's spans over OTLP, to the receiver of the OTEL_EXPORTER_OTLP_… variables
  --json              print the whole result as one line of JSON

Options of mcp
  --tool NAME         serve a built-in tool of Glovebox (python_exec, run-js …); repeatable
  --http PORT         serve over HTTP instead of stdin and stdout; 0 picks a free port
  --host ADDRESS      the address to listen on (default: 127.0.0.1)
  --allow-host NAME   a host name that clients use, other than this machine's own; repeatable

Options of serve, config and db (db: the database, the folder, the key and the config file). A config file (glovebox.config.ts) and variables (GLOVEBOX_PORT …) can set them too; flags come first
  --host ADDRESS      the address to listen on (default: 127.0.0.1)
  --port PORT         the port to listen on (default: 7070); 0 picks a free port
  --allow-host NAME   a host name that clients use, other than this machine's own; repeatable
  --database URL      a Postgres database: postgres://… (default: SQLite in the data folder)
  --data-dir FOLDER   the folder of the database and the caches (default: ./glovebox-data)
  --master-key-file FILE  the key that encrypts secrets (default: master.key in the data folder)
  --log-level LEVEL   silent, error, warn, info or debug (default: info)
  --config FILE       the config file (default: ./glovebox.config.ts, if it exists)

Options of login
  --key-file FILE     read the API key from a file instead of stdin

Options of deploy, rollback, call, tools, calls, logs and secrets. They use the server of glovebox login, or GLOVEBOX_URL and GLOVEBOX_API_KEY
  --tenant ID         the tenant (default: the one of the API key)
  --json              print JSON also in a terminal; in a pipe, it is the default
  --alias NAME        the release that runs the new version, that is rolled back, or that is called (default: live)
  --canary SHARE      the share of the calls that the new version gets: 10%
  --allow-host HOST   a host that may receive the secret: host, host:port, *.host or an origin; repeatable
  --value-file FILE   read the value of the secret from a file instead of stdin
  --approve           approve what the new version requests; the key needs the scope tools:approve

Exit codes: 0 success, 1 the tool or a limit failed or the output could not be written, 2 usage or bundle error, 130 and 143 stopped by
SIGINT or SIGTERM, 141 the reader of the output closed it. dev, mcp, serve and top exit with 0 if they are stopped while they run`;

/** An output error, such as a full disk. The command line prints its message and exits with 1. */
export class OutputError extends Error {
  override readonly name = "OutputError";
}

/** Write errors that the arguments did not cause. */
const DISK_ERRORS: ReadonlySet<string | undefined> = new Set(["ENOSPC", "EDQUOT", "EIO"]);

/** Returns the error to throw for a file that cannot be written. */
export function toWriteError(file: string, thrown: unknown): Error {
  const { code } = thrown as NodeJS.ErrnoException;
  const message = `${file} cannot be written: ${String(code)}`;
  return DISK_ERRORS.has(code) ? new OutputError(message) : new UsageError(message);
}

/** The arguments of a command, checked against its table. */
export interface Arguments {
  /** Values by option: its text, `true` for a switch, a list for a repeatable option. An option that was not given has no key. */
  readonly values: { readonly [name: string]: string | boolean | readonly string[] | undefined };
  readonly positionals: readonly string[];
  /** Whether `-` was given for stdin. */
  readonly stdin: boolean;
}
