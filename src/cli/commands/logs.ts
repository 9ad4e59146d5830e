// `glovebox logs`: prints the log lines of a call, or of the calls of a tool, and follows them.
import { setTimeout as wait } from "node:timers/promises";
import { ApiError, type Call, type TenantClient } from "../../client/index.ts";
import { isTemporary } from "../../client/requests/api-error.ts";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted, take } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

/** Calls of a tool whose lines are printed first. */
const LATEST = 50;
const FOLLOW_MS = 1_000;
/** A call can appear below newer ones that ended earlier: now and then, calls that began in this time in ms are listed again. */
const OVERLAP_MS = 60_000;
const OVERLAP_EVERY = 10;
/** Calls per request of a list. */
const PAGE = 200;
/** Calls that are read at the same time. */
const READS = 8;
/** Calls that are followed live at the same time. The others wait until one of these has ended. */
const MAX_LIVE = 20;
/** Connections to the server that fail one after the other until the command gives up. */
const MAX_FAILURES = 60;

/** An id, which begins as the name of a tool may. */
const CALL_ID = /^call_[0-9a-z]{26}(?:\.\d+)*$/;

interface LogLine {
  readonly level?: string;
  readonly message?: string;
}

/** What the lines of a call are printed with. */
interface LineOwner {
  readonly id: string;
  readonly tool: string;
  readonly version?: number | null;
}

type PrintLine = (owner: LineOwner, line: LogLine) => void;

const linesOf = ({ logs }: Call): readonly LogLine[] => (logs ?? []) as readonly LogLine[];

/** Prints the log lines of a call, or of the latest calls of a tool; with `--follow`, also those that are written later. */
export async function logsCommand(given: Arguments, io: Io): Promise<number> {
  const isJson = isJsonWanted(given);
  const print: PrintLine = ({ id, tool, version = null }, line) => {
    const name = version === null ? tool : `${tool}@${version}`;
    if (isJson) io.stdout.print(`${JSON.stringify({ call: id, ...line })}\n`);
    else io.stdout.print(`${name} ${line.level ?? ""} ${line.message ?? ""}\n`);
  };
  const isFollowing = given.values.follow === true;
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    const [target = ""] = given.positionals;
    try {
      if (!CALL_ID.test(target)) await printTool(tenant, target, { print, isFollowing, io });
      else if (!isFollowing) await printCall(tenant, target, print, io);
      else {
        const owner = (await findCall(tenant, target)) ?? { id: target, tool: target };
        await followCall(tenant, owner, print, io.stop);
      }
    } catch (thrown) {
      // To stop is how a command that follows ends.
      if (!(isFollowing && io.stop.aborted)) throw thrown;
    }
    return 0;
  });
}

async function printCall(tenant: TenantClient, id: string, print: PrintLine, io: Io): Promise<void> {
  const call = await tenant.getCall(id);
  for (const line of linesOf(call)) print(call, line);
  if (call.endedAt === null) io.stderr.print(`glovebox: ${id} has not ended. Follow it with --follow\n`);
}

/** Returns a call; undefined if it has no record: it was deleted, as old calls are, or a client waits for it while it runs. */
async function findCall(tenant: TenantClient, id: string): Promise<Call | undefined> {
  return await tenant.getCall(id).catch((thrown: unknown) => {
    if (thrown instanceof ApiError && thrown.status === 404) return undefined;
    throw thrown;
  });
}

/** Prints the lines of a call as they are written, until it has ended. A lost connection is opened again. */
async function followCall(
  tenant: TenantClient,
  owner: LineOwner,
  print: PrintLine,
  signal: AbortSignal,
): Promise<void> {
  let shown = owner;
  let printed = 0;
  for (let failures = 0; ; failures += 1) {
    try {
      if (shown.version === undefined) shown = (await findCall(tenant, owner.id)) ?? owner;
      // Each stream begins with the first line.
      let index = 0;
      for await (const { event, data } of tenant.watch(owner.id, signal)) {
        if (event === "result") {
          const ended = data as Call;
          // A call that ended before it was followed has no stream of lines.
          for (const line of linesOf(ended).slice(printed)) print(ended, line);
          return;
        }
        if (event !== "log") continue;
        index += 1;
        if (index <= printed) continue;
        printed = index;
        failures = 0;
        print(shown, data as LogLine);
      }
    } catch (thrown) {
      const mayGoOn = !(thrown instanceof ApiError) || isTemporary(thrown);
      if (signal.aborted || !mayGoOn || failures >= MAX_FAILURES) throw thrown;
    }
    await wait(FOLLOW_MS, undefined, { signal });
  }
}

interface ToolOptions {
  readonly print: PrintLine;
  readonly isFollowing: boolean;
  readonly io: Io;
}

async function printTool(tenant: TenantClient, tool: string, { print, isFollowing, io }: ToolOptions): Promise<void> {
  const listed = isFollowing ? await takeRecent(tenant, tool) : await take(tenant.calls({ tool }), LATEST);
  const latest = listed.slice(0, LATEST);
  if (latest.length === 0) {
    // Fails for a tool that does not exist.
    await take(tenant.versions(tool), 1);
    io.stderr.print(`glovebox: ${tool} has no calls yet\n`);
  }
  const ended = latest.filter(({ endedAt }) => endedAt !== null);
  await printEnded(tenant, ended.toReversed(), print);
  if (!isFollowing) return;
  const end = new AbortController();
  try {
    await new ToolFollower(tenant, tool, print, AbortSignal.any([io.stop, end.signal])).follow(listed);
  } finally {
    // The calls that are followed live would go on without the list.
    end.abort();
  }
}

/** Returns the latest calls of a tool, and the earlier ones that a follower lists again and must not show as new. */
async function takeRecent(tenant: TenantClient, tool: string): Promise<readonly Call[]> {
  const calls: Call[] = [];
  for await (const call of tenant.calls({ tool, limit: PAGE })) {
    const newestAt = calls[0]?.createdAt ?? call.createdAt;
    if (calls.length >= LATEST && call.createdAt <= newestAt - OVERLAP_MS) break;
    calls.push(call);
  }
  return calls;
}

/** Prints the lines of calls that have ended, in this order. @param onPrinted called with each call whose lines were printed */
async function printEnded(
  tenant: TenantClient,
  calls: readonly Call[],
  print: PrintLine,
  onPrinted?: (call: Call) => void,
): Promise<void> {
  for (let start = 0; start < calls.length; start += READS) {
    const some = calls.slice(start, start + READS);
    const read = await Promise.all(some.map(({ id }) => findCall(tenant, id)));
    for (const call of read) if (call !== undefined) for (const line of linesOf(call)) print(call, line);
    if (onPrinted !== undefined) some.forEach(onPrinted);
  }
}

/** Follows the calls of a tool: live those that run, and the others when they have ended. */
class ToolFollower {
  readonly #tenant: TenantClient;
  readonly #tool: string;
  readonly #print: PrintLine;
  readonly #signal: AbortSignal;
  /** Calls whose lines are printed, or are printed live, with the time at which they began. */
  readonly #seen = new Map<string, number>();
  /** Calls that are followed live or wait for it. */
  readonly #open = new Set<string>();
  readonly #waiting: LineOwner[] = [];
  #live = 0;
  /** Id of the newest call that was listed; empty before the first. */
  #newest = "";
  #newestAt = 0;

  constructor(tenant: TenantClient, tool: string, print: PrintLine, signal: AbortSignal) {
    this.#tenant = tenant;
    this.#tool = tool;
    this.#print = print;
    this.#signal = signal;
  }

  /** @param listed the calls from before, the newest first. Of those that have ended, the latest are printed */
  async follow(listed: readonly Call[]): Promise<never> {
    for (const call of listed) {
      if (call.endedAt === null) this.#followLive(call, call.createdAt);
      else this.#seen.set(call.id, call.createdAt);
    }
    this.#advance(listed[0]);
    let failures = 0;
    for (let round = 1; ; round += 1) {
      try {
        await this.#look(round % OVERLAP_EVERY === 0);
        failures = 0;
      } catch (thrown) {
        failures += 1;
        if (this.#signal.aborted || !isTemporary(thrown) || failures > MAX_FAILURES) throw thrown;
      }
      await wait(FOLLOW_MS, undefined, { signal: this.#signal });
    }
  }

  async #look(isOverlapping: boolean): Promise<void> {
    for (const { id, tool, startedAt } of await this.#tenant.runningCalls())
      if (tool === this.#tool) this.#followLive({ id, tool }, startedAt);
    const since = isOverlapping ? this.#newestAt - OVERLAP_MS : Number.POSITIVE_INFINITY;
    const found: Call[] = [];
    for await (const call of this.#tenant.calls({ tool: this.#tool, limit: PAGE })) {
      if (call.id <= this.#newest && call.createdAt <= since) break;
      found.push(call);
    }
    const ended: Call[] = [];
    for (const call of found.toReversed()) {
      if (call.endedAt === null) this.#followLive(call, call.createdAt);
      else if (!this.#seen.has(call.id)) ended.push(call);
    }
    // A call whose lines could not be read is found again by the next look.
    await printEnded(this.#tenant, ended, this.#print, ({ id, createdAt }) => this.#seen.set(id, createdAt));
    this.#advance(found[0]);
    for (const [id, at] of this.#seen)
      if (at < this.#newestAt - 2 * OVERLAP_MS && !this.#open.has(id)) this.#seen.delete(id);
  }

  #advance(newest: Call | undefined): void {
    if (newest === undefined || newest.id <= this.#newest) return;
    this.#newest = newest.id;
    this.#newestAt = newest.createdAt;
  }

  #followLive(call: LineOwner, startedAt: number): void {
    if (this.#seen.has(call.id)) return;
    this.#seen.set(call.id, startedAt);
    this.#open.add(call.id);
    this.#waiting.push(call);
    this.#startLive();
  }

  #startLive(): void {
    if (this.#live >= MAX_LIVE) return;
    const call = this.#waiting.shift();
    if (call === undefined) return;
    this.#live += 1;
    void followCall(this.#tenant, call, this.#print, this.#signal)
      // A server that does not answer is an error of the list of calls too.
      .catch(() => {})
      .finally(() => {
        this.#open.delete(call.id);
        this.#live -= 1;
        this.#startLive();
      });
  }
}
