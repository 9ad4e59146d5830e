// A Glovebox with hostile upstream servers, each a process of its own, and what is measured of the host meanwhile.
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "vitest";
import type { McpHttpServer, McpServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import type { Glovebox } from "../../../src/host/runtime.ts";
import type { ToolResult } from "../../../src/host/tool-call.ts";
import { codeOf, makeBox } from "../host-zone.ts";
import { holdOf } from "../loop-hold.ts";
import type { Outcome } from "./mcp-attacks.ts";

const SCRIPT = fileURLToPath(new URL("mcp-attack-server.ts", import.meta.url));
export const TRANSPORTS = ["json", "events", "stdio"] as const;
export type Transport = (typeof TRANSPORTS)[number];
const MAX_HOLD_MS = 50;
const MAX_GROWTH_MIB = 64;
const MiB = 1024 * 1024;
/** For calls that are answered, and for those that are not. */
const PATIENT_MS = 15_000;
const BRIEF_MS = 1_000;
const SAMPLE_MS = 100;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

interface Attacker extends AsyncDisposable {
  readonly options: McpServerOptions;
}

/** The attacker's process; one over stdio is started by the host. */
async function startAttacker(transport: Transport, timeoutMs: number, listAttack = ""): Promise<Attacker> {
  const common: Omit<McpHttpServer, "url" | "headersFor" | "authProviderFor"> = {
    protocol: "legacy",
    timeoutMs,
    maxTimeoutMs: 2 * timeoutMs,
    onElicitation: () => ({ action: "decline" }),
    onSampling: () => ({ role: "assistant", content: { type: "text", text: "no" }, model: "none" }),
    roots: [{ uri: "file:///given" }],
  };
  if (transport === "stdio") {
    const options = { command: process.execPath, args: [SCRIPT, transport, listAttack], ...common };
    return { options, [Symbol.asyncDispose]: async () => {} };
  }
  const child = fork(SCRIPT, [transport, listAttack], { stdio: "ignore" });
  const [port] = (await once(child, "message")) as [number];
  const options = { url: `http://127.0.0.1:${port}/mcp`, ...common };
  return {
    options,
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** What lives: garbage depends on when V8 collects it. */
function liveMiB(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / MiB;
}

/** The most that lives while something runs, above what did before. */
async function growthOf(action: () => Promise<unknown>): Promise<number> {
  const before = liveMiB();
  let most = before;
  let isRunning = true;
  const sampling = (async () => {
    while (isRunning) {
      most = Math.max(most, liveMiB());
      await pause(SAMPLE_MS);
    }
  })();
  await action().finally(() => {
    isRunning = false;
  });
  await sampling;
  return most - before;
}

export class AttackedBox implements AsyncDisposable {
  readonly #box: Glovebox;
  readonly #attackers: Attacker[] = [];
  #calls = 0;

  private constructor(box: Glovebox) {
    this.#box = box;
  }

  static async start(): Promise<AttackedBox> {
    const attacked = new AttackedBox(await makeBox());
    await attacked.#add("bystander", "events", PATIENT_MS);
    // What is compiled with the first of them is no attack's doing.
    for (const transport of TRANSPORTS) {
      const server = await attacked.#serverFor(transport, ["ok"]);
      await attacked.#call(`${server}__attack`, { attack: "a text of 3.9 MB" });
    }
    return attacked;
  }

  async #add(name: string, transport: Transport, timeoutMs: number): Promise<void> {
    const attacker = await startAttacker(transport, timeoutMs);
    this.#attackers.push(attacker);
    this.#box.mcp.addServer(name, attacker.options);
    expect(await this.#askGood(name)).toBe("ok");
  }

  /** The server that an attack goes to: of its transport, and as patient as its outcome needs. It is started with its first attack. */
  async #serverFor(transport: Transport, [outcome]: readonly Outcome[]): Promise<string> {
    const isBrief = outcome === "TOOL_TIMEOUT";
    const name = isBrief ? `${transport}-brief` : transport;
    const isThere = this.#box.mcp.servers().some(({ server }) => server === name);
    if (!isThere) await this.#add(name, transport, isBrief ? BRIEF_MS : PATIENT_MS);
    return name;
  }

  #call(toolName: string, args: object = {}): Promise<ToolResult> {
    this.#calls += 1;
    return this.#box.execute({ id: `call-${this.#calls}`, toolName, arguments: args });
  }

  async #askGood(server: string): Promise<string> {
    const result = await this.#call(`${server}__good`);
    return result.success && result.output === "good" ? "ok" : codeOf(result);
  }

  /** Runs a call that is answered with an attack; the server's next call works, and another server's meanwhile. */
  async expectBounded(transport: Transport, attack: string, outcomes: readonly Outcome[]): Promise<void> {
    const server = await this.#serverFor(transport, outcomes);
    const run = (): Promise<ToolResult> => this.#call(`${server}__attack`, { attack });
    const { value, heldMs } = await holdOf(() => Promise.all([run(), this.#askGood("bystander")]));
    const [result, others] = value;
    expect(outcomes).toContain(codeOf(result));
    expect(others).toBe("ok");
    expect(heldMs).toBeLessThan(MAX_HOLD_MS);
    expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
    expect(await growthOf(run)).toBeLessThan(MAX_GROWTH_MIB);
    // A program that does not stop writing is started anew.
    await expect.poll(() => this.#askGood(server), { timeout: 30_000 }).toBe("ok");
  }

  /** Lists the tools of a server whose list is an attack. */
  async expectListBounded(transport: Transport, listAttack: string, mostTools: number): Promise<void> {
    await using attacker = await startAttacker(transport, PATIENT_MS, listAttack);
    const list = async (): Promise<void> => {
      this.#box.mcp.addServer("lists", attacker.options);
      await this.#call("lists__good");
    };
    try {
      const { heldMs } = await holdOf(list);
      expect(heldMs).toBeLessThan(MAX_HOLD_MS);
      const status = this.#box.mcp.servers().find(({ server }) => server === "lists");
      expect(status?.tools).toBeLessThanOrEqual(mostTools);
      await this.#box.mcp.removeServer("lists");
      expect(await growthOf(list)).toBeLessThan(MAX_GROWTH_MIB);
    } finally {
      await this.#box.mcp.removeServer("lists");
    }
    expect(await this.#askGood("bystander")).toBe("ok");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#box.close();
    for (const attacker of this.#attackers) await attacker[Symbol.asyncDispose]();
  }
}
