// The help text of the command line, and what commands share: parsed arguments, usage errors and the time limit of a call.
import { LIMITS } from "../sandbox/contract/limits.ts";

/** An error in the arguments. The command line prints its message on one line and exits with 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Wall time in ms of a call that a developer starts at a terminal: long enough for the first start of a process on a busy machine. Ctrl-C
 * ends a call sooner, and an endless loop ends at its CPU limit.
 */
export const TERMINAL_TIMEOUT_MS = 30_000;

export const USAGE = `Runs untrusted tools: bundled, isolated, with limits

Usage
  glovebox run PATH [--input JSON | --input-file FILE | -] [options]   run a tool once
  glovebox dev PATH [--input JSON | --input-file FILE] [options]       run it again whenever its files change
  glovebox mcp PATH… [--http PORT] [options]                           serve tools to MCP clients, over stdio or HTTP
  glovebox mcp --mcp NAME=COMMAND_OR_URL… [--code-mode]                serve the tools of MCP servers, or code that calls them
  glovebox test [PATH]                                                 run a tool's vitest files in the real sandbox
  glovebox test [PATH] --record ID                                     write a recorded call of the server as a fixture with a test
  glovebox types [PATH…] [--out FILE]                                  write the types of a set of tools as a .d.ts
  glovebox inspect PATH [--json]                                       show a tool's definition, imports and sizes
  glovebox init NAME                                                   create a new tool that works
  glovebox serve [options]                                             host the tools of many tenants behind an HTTP API
  glovebox executor --nats URL [--credentials FILE] [options]          run calls of servers with the same NATS server
  glovebox executor credentials [--pool POOL] FOLDER NAME…             create the credentials of a server, and of executors of a pool
  glovebox config [options]                                            print the configuration that serve would use
  glovebox db migrate | check | backup FILE | restore FILE | rotate-key FILE   maintain the database of serve
  glovebox db admin-key                                                print a new admin key, if the first one is lost
  glovebox login [URL]                                                 store the API key of a server, read from stdin
  glovebox deploy PATH [--alias NAME] [--canary 10%] [--approve]       deploy a tool to the server
  glovebox rollback NAME [--alias NAME]                                go back to what a release ran before
  glovebox call NAME [--input JSON] [--version N | --alias NAME] [--async] [--approve]   call a tool on the server
  glovebox tools                                                       list the tools on the server
  glovebox calls [--tool NAME] [--state STATE]                         list the latest calls
  glovebox logs NAME|ID [-f | --follow]                                show the log lines of a tool's calls, or of one call
  glovebox replay ID [--version N] [--input JSON] [--inspect-brk]      run a recorded call again on this machine, offline
  glovebox rehearse NAME --version N [--since 7d] [--sample 500]       try a version with recorded calls, and report differences
  glovebox secrets list | set NAME --allow-host HOST | delete NAME     manage the secrets of a tenant
  glovebox approvals [list | approve ID | deny ID] [--reason TEXT]     decide about calls and versions (TOOL@VERSION) that wait for approval
  glovebox runs [list | show ID | start NAME | cancel ID]              list, show, start and cancel durable runs
  glovebox runs approve | deny | answer | decline ID WAIT, event ID NAME   give a run what it waits for (--input: the answer or event)
  glovebox fleet [--json]                                              show the executors, pools and replicas of the server
  glovebox fleet drain ID                                              let an executor finish its calls and end
  glovebox top [--json]                                                show running calls, tools and processes of the server
  glovebox doctor [--json]                                             show what protects this machine, with evidence

PATH is a file or a folder that contains a tool

Options of run, dev and mcp (mcp has no input options and no --log-source-locations)
  --input JSON        the input (default: {})
  --input-file FILE   read the input from a file: JSON, or any text for a tool with one text input
  --tenant ID         the tenant to serve (default: a single tenant without a name)
  --timeout-ms N      wall time, ${LIMITS.timeoutMs.min} to ${LIMITS.timeoutMs.max} (default: ${TERMINAL_TIMEOUT_MS}; mcp: ${LIMITS.timeoutMs.default})
  --cpu-ms N          CPU time, ${LIMITS.cpuMs.min} to ${LIMITS.cpuMs.max}
  --memory-mib N      memory, ${LIMITS.memoryMiB.min} to ${LIMITS.memoryMiB.max} (default: ${LIMITS.memoryMiB.default})
  --allow-fetch HOST  allow requests to HOST: host, host:port, *.host or an origin; repeatable
  --secret NAME=ENV   provide the environment variable ENV as the secret NAME, for the hosts of --allow-fetch; repeatable
  --grant NAME        grant a capability or an engine feature (kv, stringToCode, webAssembly …); repeatable
  --linked-package FOLDER  let tools import a package that node_modules links from FOLDER, as in a workspace; repeatable
                      (also an option of inspect and types)
  --log-source-locations  show the source location of each console call

Options of dev and replay
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
  --mcp NAME=COMMAND  serve the tools of an MCP server as NAME__TOOL: a command with its arguments, or a URL; repeatable
  --mcp-env NAME=VAR  pass the environment variable VAR to the server NAME; repeatable
  --mcp-header NAME=HEADER:VAR  send the value of the variable VAR as this header to the server NAME; repeatable
  --mcp-token NAME=VAR  send the value of the variable VAR as bearer token to the server NAME; repeatable
  --code-mode         serve two tools instead of all: search_tools, and run_code for code that calls the tools
  --no-type-check     run TypeScript without checking its types first (checking needs: npm install typescript@7)
  --runs FILE         keep durable runs in this file: calls of durable tools become tasks, and code waits for people
  --http PORT         serve over HTTP instead of stdin and stdout; 0 picks a free port
  --host ADDRESS      the address to listen on (default: 127.0.0.1)
  --allow-host NAME   a host name that clients use, in addition to localhost; repeatable

Options of serve, config and db (db: the database, the folder, the key and the config file). A config file (glovebox.config.ts) and variables (GLOVEBOX_PORT …) can set them too; flags come first
  --host ADDRESS      the address to listen on (default: 127.0.0.1)
  --port PORT         the port to listen on (default: 7070); 0 picks a free port
  --allow-host NAME   a host name that clients use, other than this machine's own; repeatable
  --replica-url URL   where other replicas reach this one (default: the address that it listens on, or connects to Postgres from)
  --database URL      a Postgres database: postgres://… (default: SQLite in the data folder)
  --data-dir FOLDER   the folder of the database and the caches (default: ./glovebox-data)
  --master-key-file FILE  the key that encrypts secrets (default: master.key in the data folder)
  --log-level LEVEL   silent, error, warn, info or debug (default: info)
  --nats URL          a NATS server, whose executors run the calls (default: they run on this machine)
  --nats-credentials FILE  the credentials of the server: control-plane.json of glovebox executor credentials
  --nats-tls-ca FILE  the certificates that sign the NATS server's, in PEM format
  --config FILE       the config file (default: ./glovebox.config.ts, .js, .mjs or .json, if it exists)

Options of executor. Variables can set them too: GLOVEBOX_NATS_URL, GLOVEBOX_NATS_CREDENTIALS, GLOVEBOX_NATS_TLS_CA, GLOVEBOX_EXECUTOR_POOL …
  --nats URL          the NATS server: nats://HOST:PORT, or tls://HOST:PORT
  --credentials FILE  the credentials of this executor (default: none, for a NATS server without authentication)
  --tls-ca FILE       the certificates that sign the NATS server's, in PEM format
  --pool NAME         the pool that it belongs to; it must be that of its credentials (default: that pool)
  --slots N           most calls that run at the same time, without nested ones (default: 32)
  --max-workers N     most worker processes (default: 16)
  --warm-processes N  worker processes that are started, and that no tenant has used yet (default: 1)
  --warm-python-processes N  the same, with a loaded Python interpreter; about 230 MiB each (default: 1)
  --cache-dir FOLDER  the folder of bundles and code caches (default: ~/.cache/glovebox-executor)
  --alive-file FILE   a file that is written every 5 s while the executor runs, for probes
  --drain-ms N        how long calls may take to finish when it is stopped (default: 25000)

Options of login
  --key-file FILE     read the API key from a file instead of stdin

Options of call, replay and runs
  --input JSON        the input (default: {}; replay: the recorded one), or the answer or event of a run
  --input-file FILE   read it from a file, as JSON

Options of call and runs
  --version N         the version to run (default: that of the release)

Options of deploy, rollback, call, tools, calls, logs, replay, rehearse, test --record, approvals, runs and secrets. They use the server of glovebox login, or GLOVEBOX_URL and GLOVEBOX_API_KEY
  --tenant ID         the tenant (default: the one of the API key)
  --json              print JSON also in a terminal; in a pipe, it is the default
  --alias NAME        the release that runs the new version, that is rolled back, or that is called (default: live)
  --canary SHARE      the share of the calls that the new version gets: 10%
  --allow-host HOST   a host that may receive the secret: host, host:port, *.host or an origin; repeatable
  --value-file FILE   read the value of the secret from a file instead of stdin
  --approve           approve what the new version requests (scope tools:approve), or the call itself (scope calls:approve)
  --version N         the version to replay or rehearse; replay: default is the recorded one
  --since TIME        how far back recorded calls are rehearsed: 30m, 12h or 7d (default: 7d)
  --sample N          how many of them, the newest first (default: 500)
  --max-skipped N     how many recordings may be skipped without failing the rehearsal (default: 0)
  --async             do not wait for the result of the call or run: print its id
  --tool NAME         list only what is of this tool
  --state STATE       list only what is in this state: running, failed, suspended, pending …
  --kind KIND         list runs of tools only (tool), or of code only (code)
  --reason TEXT       why a call or a run is approved or denied; the caller receives the reason of a denial

Exit codes: 0 success, 1 the tool or a limit failed or the output could not be written, 2 usage or bundle error, 130 and 143 stopped by
SIGINT or SIGTERM, 141 the reader of the output closed it. dev, logs --follow, mcp, serve and top exit with 0 if they are stopped while they run`;

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
