// Hostile upstream MCP servers over each transport: each call has one clear outcome, the event loop and the memory of the host stay bounded,
// the server's next call works, and no other server notices.
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { McpHttpServer, McpServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import type { Glovebox } from "../../../src/host/runtime.ts";
import type { ToolResult } from "../../../src/host/tool-call.ts";
import { ATTACKS, HTTP_ATTACKS, LIST_ATTACKS, type Outcome } from "../../support/attacks/mcp-attacks.ts";
import { codeOf, makeBox } from "../../support/host-zone.ts";
import { holdOf } from "../../support/loop-hold.ts";

const SCRIPT = fileURLToPath(new URL("../../support/attacks/mcp-attack-server.ts", import.meta.url));
const TRANSPORTS = ["json", "events", "stdio"] as const;
type Transport = (typeof TRANSPORTS)[number];
const MAX_HOLD_MS = 50;
const MAX_GROWTH_MIB = 64;
const MiB = 1024 * 1024;
/** For calls that are answered, and for those that are not. */
const PATIENT_MS = 15_000;
const BRIEF_MS = 1_000;
const SAMPLE_MS = 50;

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

let box: Glovebox;
const attackers: Attacker[] = [];
beforeAll(async () => {
  box = await makeBox();
  const bystander = await startAttacker("events", PATIENT_MS);
  attackers.push(bystander);
  box.mcp.addServer("bystander", bystander.options);
  expect(await isGood("bystander")).toBe("ok");
  // What is compiled with the first of them is no attack's doing.
  for (const transport of TRANSPORTS) {
    const server = await serverFor(transport, ["ok"]);
    await call(`${server}__attack`, { attack: "a text of 3.9 MB" });
  }
});
afterAll(async () => {
  await box.close();
  for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
});

let calls = 0;
function call(toolName: string, args: object = {}): Promise<ToolResult> {
  calls += 1;
  return box.execute({ id: `call-${calls}`, toolName, arguments: args });
}
const isGood = async (server: string): Promise<string> => {
  const result = await call(`${server}__good`);
  return result.success && result.output === "good" ? "ok" : codeOf(result);
};

/** The server that an attack goes to: of its transport, and as patient as its outcome needs. It is started with its first attack. */
async function serverFor(transport: Transport, [outcome]: readonly Outcome[]): Promise<string> {
  const isBrief = outcome === "TOOL_TIMEOUT";
  const name = isBrief ? `${transport}-brief` : transport;
  if (box.mcp.servers().every(({ server }) => server !== name)) {
    const attacker = await startAttacker(transport, isBrief ? BRIEF_MS : PATIENT_MS);
    attackers.push(attacker);
    box.mcp.addServer(name, attacker.options);
    expect(await isGood(name)).toBe("ok");
  }
  return name;
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

async function expectBounded(transport: Transport, attack: string, outcomes: readonly Outcome[]): Promise<void> {
  const server = await serverFor(transport, outcomes);
  const run = (): Promise<ToolResult> => call(`${server}__attack`, { attack });
  const { value, heldMs } = await holdOf(() => Promise.all([run(), isGood("bystander")]));
  const [result, others] = value;
  expect(outcomes).toContain(codeOf(result));
  expect(others).toBe("ok");
  expect(heldMs).toBeLessThan(MAX_HOLD_MS);
  expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
  expect(await growthOf(run)).toBeLessThan(MAX_GROWTH_MIB);
  // A program that does not stop writing is started anew.
  await expect.poll(() => isGood(server), { timeout: 30_000 }).toBe("ok");
}

const CASES = TRANSPORTS.flatMap((transport) =>
  Object.entries(ATTACKS)
    .filter(([, { isOneMessage }]) => transport !== "json" || isOneMessage === true)
    .map(([name, { outcomes }]) => [transport, name, outcomes] as const),
);

describe("a call that is answered with an attack is bounded, and the next call works:", () => {
  test.for(CASES)("%s, %s", async ([transport, name, outcomes]) => {
    await expectBounded(transport, name, outcomes);
  });

  test.for(Object.entries(HTTP_ATTACKS))("HTTP, %s", async ([name, { outcomes }]) => {
    await expectBounded("events", name, outcomes);
  });
});

describe("a list of tools that is an attack is bounded:", () => {
  const lists = TRANSPORTS.flatMap((transport) =>
    Object.entries(LIST_ATTACKS).map(([name, { mostTools }]) => [transport, name, mostTools] as const),
  );
  test.for(lists)("%s, %s", async ([transport, name, mostTools]) => {
    await using attacker = await startAttacker(transport, PATIENT_MS, name);
    const list = async (): Promise<void> => {
      box.mcp.addServer("lists", attacker.options);
      await call("lists__good");
    };
    try {
      const { heldMs } = await holdOf(list);
      expect(heldMs).toBeLessThan(MAX_HOLD_MS);
      const [status] = box.mcp.servers().filter(({ server }) => server === "lists");
      expect(status?.tools).toBeLessThanOrEqual(mostTools);
      await box.mcp.removeServer("lists");
      expect(await growthOf(list)).toBeLessThan(MAX_GROWTH_MIB);
    } finally {
      await box.mcp.removeServer("lists");
    }
    expect(await isGood("bystander")).toBe("ok");
  });
});
