// A Glovebox with hostile upstream servers, each in its own process, and measurements of the host during the attack.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpHttpServer, UpstreamServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import { codeOf, makeGlovebox } from "../host-zone.ts";
import { expectShortTurns } from "../loop-hold.ts";
import type { Outcome } from "./mcp-attacks.ts";

const SCRIPT = fileURLToPath(new URL("mcp-attack-server.ts", import.meta.url));
export const TRANSPORTS = ["json", "events", "stdio"] as const;
export type Transport = (typeof TRANSPORTS)[number];
/** On a busy machine, a turn may take less than parsing a message of 4 MiB in one turn (a third of the control): what slicing prevents. */
const HOLD = { boundMs: 50, share: 0.3 } as const;
const MAX_GROWTH_MIB = 100;
const MiB = 1024 * 1024;
/** For calls that are answered, and for attacks that leave a call without an answer. */
const PATIENT_MS = 120_000;
const BRIEF_MS = 500;
/** For a call that is lost with the process of its server: the next one is answered. */
const RESTART_MS = 20_000;
const SAMPLE_MS = 25;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
// Other test files share the process, and a new isolate would have the function among its globals.
setFlagsFromString("--no-expose-gc");

interface Attacker extends AsyncDisposable {
  readonly options: UpstreamServerOptions;
}

/** The attacker's process; one over stdio is started by the host. */
async function startAttacker(transport: Transport, listAttack = ""): Promise<Attacker> {
  const common: Omit<McpHttpServer, "url" | "headersFor" | "authProviderFor"> = {
    protocol: "legacy",
    timeoutMs: PATIENT_MS,
    maxTimeoutMs: 2 * PATIENT_MS,
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

function usedMiB(): number {
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / MiB;
}

/** Measures live memory only, because garbage depends on when V8 collects it. */
function liveMiB(): number {
  collect();
  return usedMiB();
}

interface Growth<Value> {
  readonly value: Value;
  /** The most that was in use while the action ran, above what lived before. */
  readonly mostMiB: number;
}

/** @param read measures what is in use: with garbage for nothing, or without it at the price of a collection */
async function growthOf<Value>(action: () => Promise<Value>, read: () => number): Promise<Growth<Value>> {
  const before = liveMiB();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, read());
  }, SAMPLE_MS);
  try {
    const value = await action();
    return { value, mostMiB: Math.max(most, read()) - before };
  } finally {
    clearInterval(timer);
  }
}

/** For what passed the bound with its garbage: runs it again, and collects the garbage where it would pass the bound. */
async function expectNoGrowth(action: () => Promise<unknown>): Promise<void> {
  const before = liveMiB();
  const read = (): number => (usedMiB() - before < MAX_GROWTH_MIB ? 0 : liveMiB());
  const { mostMiB } = await growthOf(action, read);
  expect(mostMiB, "Growth of what lives, in MiB").toBeLessThan(MAX_GROWTH_MIB);
}

export class AttackedGlovebox implements AsyncDisposable {
  readonly #glovebox: Glovebox;
  readonly #attackers: Attacker[] = [];
  #calls = 0;

  private constructor(glovebox: Glovebox) {
    this.#glovebox = glovebox;
  }

  static async start(): Promise<AttackedGlovebox> {
    const attacked = new AttackedGlovebox(await makeGlovebox());
    await attacked.#add("bystander", "events");
    return attacked;
  }

  async #add(name: string, transport: Transport): Promise<void> {
    const attacker = await startAttacker(transport);
    this.#attackers.push(attacker);
    this.#glovebox.mcp.addServer(name, attacker.options);
    expect(await this.#askGood(name)).toBe("ok");
  }

  /** The server that an attack goes to is started with the first attack over its transport. */
  async #ensureServer(transport: Transport): Promise<void> {
    if (this.#glovebox.mcp.servers().some(({ server }) => server === transport)) return;
    await this.#add(transport, transport);
    // Code that is compiled for the first message is not an effect of the attack.
    await this.#call(`${transport}__attack`, { attack: "a text of 3.9 MB" });
  }

  #call(toolName: string, args: object = {}, timeoutMs = PATIENT_MS): Promise<ToolResult> {
    this.#calls += 1;
    return this.#glovebox.execute({ id: `call-${this.#calls}`, toolName, arguments: args }, { timeoutMs });
  }

  async #askGood(server: string, timeoutMs = PATIENT_MS): Promise<string> {
    const result = await this.#call(`${server}__good`, {}, timeoutMs);
    return result.success && result.output === "good" ? "ok" : codeOf(result);
  }

  /** Runs a call that is answered with an attack; the server's next call works, and another server's meanwhile. */
  async expectBounded(transport: Transport, attack: string, outcomes: readonly Outcome[]): Promise<void> {
    await this.#ensureServer(transport);
    const timeoutMs = outcomes[0] === "TOOL_TIMEOUT" ? BRIEF_MS : PATIENT_MS;
    const run = (): Promise<ToolResult> => this.#call(`${transport}__attack`, { attack }, timeoutMs);
    const both = () => Promise.all([run(), this.#askGood("bystander")]);
    const { value, mostMiB } = await growthOf(() => expectShortTurns(both, HOLD), usedMiB);
    const [result, others] = value;
    expect(outcomes).toContain(codeOf(result));
    expect(others).toBe("ok");
    expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
    if (mostMiB >= MAX_GROWTH_MIB) await expectNoGrowth(run);
    // A program that does not stop writing is started anew.
    await expect.poll(() => this.#askGood(transport, RESTART_MS)).toBe("ok");
  }

  /** Lists the tools of a server whose list is an attack. */
  async expectListBounded(transport: Transport, listAttack: string, mostTools: number): Promise<void> {
    await using attacker = await startAttacker(transport, listAttack);
    const list = async (): Promise<void> => {
      if (this.#glovebox.mcp.servers().some(({ server }) => server === "lists"))
        await this.#glovebox.mcp.removeServer("lists");
      this.#glovebox.mcp.addServer("lists", attacker.options);
      await this.#call("lists__good");
    };
    try {
      const { mostMiB } = await growthOf(() => expectShortTurns(list, HOLD), usedMiB);
      const status = this.#glovebox.mcp.servers().find(({ server }) => server === "lists");
      expect(status?.tools).toBeLessThanOrEqual(mostTools);
      if (mostMiB >= MAX_GROWTH_MIB) await expectNoGrowth(list);
    } finally {
      await this.#glovebox.mcp.removeServer("lists");
      expect(await this.#askGood("bystander")).toBe("ok");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#glovebox.close();
    for (const attacker of this.#attackers) await attacker[Symbol.asyncDispose]();
  }
}
