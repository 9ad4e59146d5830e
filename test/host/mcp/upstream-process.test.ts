// Tests the process of an upstream server: limits on output and unread input, its environment, and the end of all its processes.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { afterEach, describe, expect, test } from "vitest";
import { ServerProcess, type ServerProcessOptions } from "../../../src/host/mcp/client/server-process.ts";
import type { ServerLayer } from "../../../src/host/mcp/client/server-sandbox.ts";
import { treeOf } from "../../support/process-tree.ts";
import { expectDead, isAlive } from "../../support/processes.ts";

const HOST_SCRIPT = fileURLToPath(new URL("../../support/server-process-script.ts", import.meta.url));
const ALL_LAYERS: readonly ServerLayer[] = [
  "resource-limits",
  "user",
  "no-new-privileges",
  "parent-death-signal",
  "namespaces",
];
const isRoot = process.getuid?.() === 0;

interface Started {
  readonly server: ServerProcess;
  readonly messages: JSONRPCMessage[];
  readonly errors: Error[];
  readonly closed: Promise<void>;
}
const started: ServerProcess[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.close()));
});

async function start(
  command: string,
  args: readonly string[] = [],
  more: Partial<ServerProcessOptions> = {},
): Promise<Started> {
  const server = new ServerProcess({ command, args, environment: process.env, ...more });
  const messages: JSONRPCMessage[] = [];
  const errors: Error[] = [];
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.onmessage = (message) => void messages.push(message);
  server.onerror = (error) => void errors.push(error);
  server.onclose = resolve;
  started.push(server);
  await server.start();
  return { server, messages, errors, closed };
}
const shell = (script: string, more: Partial<ServerProcessOptions> = {}): Promise<Started> =>
  start("sh", ["-c", script], more);
const ping = (id: number, more: object = {}): JSONRPCMessage => ({ jsonrpc: "2.0", id, method: "ping", ...more });

describe("ServerProcess", () => {
  test("passes small and large messages both ways in order", async () => {
    const { server, messages } = await start("cat");
    const sent = Array.from({ length: 50 }, (_, id) =>
      ping(id, id % 10 === 0 ? { params: { text: "é".repeat(150_000) } } : {}),
    );
    for (const message of sent) {
      await server.send(message);
      if ("params" in message)
        await expect.poll(() => messages.length).toBe(Number((message as { id: number }).id) + 1);
    }
    await expect.poll(() => messages.length).toBe(50);
    expect(messages).toEqual(sent);
    expect(server.diagnostics).toMatchObject({ strayLines: 0, exit: undefined });
  });

  test("rejects a missing program without naming a path", async () => {
    await expect(start("glovebox-no-such-program")).rejects.toThrow("The command was not found on the PATH");
    await expect(start("/no/such/program")).rejects.toThrow("The command is not an executable file");
    await expect(start("/etc")).rejects.toThrow("The command is not an executable file");
  });

  test("runs without the host's environment, with no-new-privileges, limits, and its own user if the host is root", async () => {
    const script = `env; id -u; grep NoNewPrivs /proc/self/status; echo nofile $(ulimit -n) core $(ulimit -c); ls /proc | grep -c '^[0-9]'; if touch "$HOME/x"; then echo written; fi`;
    const environment = { PATH: process.env.PATH, HOME: "/root", SECRET_KEY: "hunter2" };
    const { server, closed } = await shell(`{ ${script}; } >&2`, { env: { GIVEN: "1" }, environment });
    await closed;
    const { stderr, exit } = server.diagnostics;
    expect(exit).toBe("Exited with code 0");
    expect(stderr).toMatch(/^GIVEN=1$/m);
    expect(stderr).not.toContain("hunter2");
    expect(stderr).toMatch(/NoNewPrivs:\t1/);
    expect(stderr).toMatch(/^nofile 4096 core 0$/m);
    if (isRoot) {
      expect([...server.layers].sort()).toEqual([...ALL_LAYERS].sort());
      expect(stderr).toMatch(/^6[45]\d{3}$/m);
      expect(stderr).toMatch(/^written$/m);
    }
  });

  test("skips and counts lines that are not messages", async () => {
    const script = String.raw`printf 'Server listening\n\n[1,2]\n{"a":1}\n{broken\n{"jsonrpc":"2.0","method":"x"}\n'; exec cat`;
    const { server, messages, errors } = await shell(script);
    await expect.poll(() => messages).toEqual([{ jsonrpc: "2.0", method: "x" }]);
    await server.send(ping(1));
    await expect.poll(() => messages.length).toBe(2);
    expect(errors).toEqual([]);
    expect(server.diagnostics).toMatchObject({ strayLines: 4, lastStrayLine: "{broken" });
  });

  test("skips binary data", async () => {
    const { server, messages, errors } = await shell("head -c 300000 /dev/urandom; echo; exec cat");
    await server.send(ping(1));
    await expect.poll(() => messages).toEqual([ping(1)]);
    expect(errors).toEqual([]);
    expect(server.diagnostics.strayLines).toBeGreaterThan(0);
  });

  test("a response that cannot be read fails only its own request", async () => {
    const { server, messages } = await start("cat", [], { maxMessageBytes: 10_000 });
    const answer = (id: number, result: unknown): Promise<void> => server.send({ jsonrpc: "2.0", id, result } as never);
    await answer(1, { text: "x".repeat(20_000) });
    await answer(2, JSON.parse('{"__proto__":{"a":1}}'));
    await answer(3, JSON.parse("[".repeat(2_000) + "]".repeat(2_000)));
    await answer(4, "fine");
    await expect.poll(() => messages.length).toBe(4);
    expect(messages).toMatchObject(
      [
        { id: 1, error: { message: "The response is longer than 10000 bytes" } },
        { id: 2, error: { message: /__proto__/ } },
        { id: 3, error: { message: /nested/ } },
        { id: 4, result: "fine" },
      ].map(({ id, ...rest }) =>
        "error" in rest
          ? { id, error: { message: expect.stringMatching(rest.error?.message ?? "") } }
          : { id, ...rest },
      ),
    );
  });

  test("a line without an end ends the connection", async () => {
    const { server, errors, closed } = await shell("yes x | tr -d '\\n'", { maxMessageBytes: 1_024 });
    await closed;
    expect(errors.map(({ message }) => message)).toEqual([
      "Expected a message of at most 1024 bytes, got a line without an end",
    ]);
    expect(server.pid).toBeNull();
  });

  test("sending fails once the unread input reaches the limit", async () => {
    const { server } = await start("sleep", ["1000"], { maxMessageBytes: 100_000 });
    const send = async (): Promise<void> => {
      for (let id = 0; id < 100; id += 1) await server.send(ping(id, { params: { text: "x".repeat(50_000) } }));
    };
    await expect(send()).rejects.toThrow(/does not read its stdin/);
    // Closing does not wait for the server to read its input.
    await server.close();
    await expect(server.send(ping(1))).rejects.toThrow("The server process has ended");
  });

  test("keeps the end of stderr", async () => {
    // 300 KiB, because the host pauses after 256 and the process exits meanwhile with the rest in the pipe.
    const { server, closed } = await shell("head -c 307200 /dev/zero | tr '\\0' x >&2; printf '\\377the end\\n' >&2");
    await closed;
    const { stderr } = server.diagnostics;
    expect(stderr.length).toBeLessThanOrEqual(8 * 1024);
    expect(stderr).toMatch(/x\ufffdthe end\n$/);
  });

  test("a flooding server leaves the host time for another one", async () => {
    const line = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { data: "flood" } });
    const flood = await start("yes", [line]);
    let flooded = 0;
    flood.server.onmessage = () => {
      flooded += 1;
    };
    const { server, messages } = await start("cat");
    await expect.poll(() => flooded).toBeGreaterThan(1_000);
    for (let id = 0; id < 20; id += 1) {
      await server.send(ping(id));
      await expect.poll(() => messages.length, { interval: 1 }).toBe(id + 1);
    }
    const during = flooded;
    await flood.server.close();
    expect(flooded).toBe(during);
    await flood.closed;
  });
});

describe("ServerProcess.close()", () => {
  /** Starts a script that says when it can be ended: on a busy machine, it starts for longer than it has time to end. */
  async function startReady(script: string): Promise<Started> {
    const made = await shell(script);
    await expect.poll(() => made.server.diagnostics.stderr).toBe("ready\n");
    return made;
  }

  test("ends stdin first", async () => {
    const { server, closed } = await startReady("echo ready >&2; cat >/dev/null; echo saved >&2; exit 7");
    await server.close();
    await closed;
    expect(server.diagnostics).toMatchObject({ stderr: "ready\nsaved\n", exit: "Exited with code 7" });
    await server.close();
  });

  test("gives the server time to end also after a pause of the machine", async () => {
    const { server, closed } = await startReady("echo ready >&2; cat >/dev/null; sleep 0.3; echo saved >&2; exit 7");
    const tree = treeOf(server.pid ?? 0);
    for (const pid of tree) process.kill(pid, "SIGSTOP");
    const closing = server.close();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
    for (const pid of tree) process.kill(pid, "SIGCONT");
    await closing;
    await closed;
    expect(server.diagnostics).toMatchObject({ stderr: "ready\nsaved\n", exit: "Exited with code 7" });
  });

  test("close() sends SIGTERM to a program that ignores the end of its input", async () => {
    const script = "trap 'echo asked >&2; exit 0' TERM; echo ready >&2; while :; do sleep 0.05; done";
    const { server } = await startReady(script);
    await server.close();
    expect(server.diagnostics.stderr).toContain("asked\n");
  });

  test("close() kills all processes of a program that ignores SIGTERM, with any set of isolation layers", async () => {
    const script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & echo ready >&2; sleep 1000; sleep 1000";
    const wrappings: readonly (readonly ServerLayer[])[] = [[], ["namespaces"], ["namespaces", "user"], ALL_LAYERS];
    await Promise.all(
      wrappings.map(async (without) => {
        const { server, closed } = await shell(script, { sandbox: { without } });
        await expect.poll(() => server.diagnostics.stderr).toBe("ready\n");
        const tree = treeOf(server.pid ?? 0);
        expect(tree.length).toBeGreaterThanOrEqual(4);
        await server.close();
        await closed;
        await expectDead(tree);
      }),
    );
  });

  test("close() before or during the start leaves nothing behind", async () => {
    const never = new ServerProcess({ command: "sleep", args: ["1000"], environment: process.env });
    await never.close();
    await expect(never.start()).rejects.toThrow();
    const early = new ServerProcess({ command: "sleep", args: ["1000"], environment: process.env });
    const starting = early.start();
    await early.close();
    await expect(starting).rejects.toThrow("closed while it was starting");
    expect(early.pid).toBeNull();
  });
});

describe("an orphaned process of a server", () => {
  test.for<[string, readonly ServerLayer[]]>([
    ["with every layer", []],
    ["without namespaces", ["namespaces"]],
    ["without namespaces and users", ["namespaces", "user"]],
  ])("ends with the server and delays nothing: %s", async ([, without]) => {
    // The orphans keep its stdout open, and one has its own session if the layers allow finding it.
    const detached = isRoot && !without.includes("user") ? "setsid sleep 1000 &" : "";
    const { server, closed } = await shell(`sleep 1000 & ${detached} echo ready >&2; read line; exit 3`, {
      sandbox: { without },
    });
    await expect.poll(() => server.diagnostics.stderr).toBe("ready\n");
    const tree = treeOf(server.pid ?? 0);
    await server.send(ping(1));
    await closed;
    await expectDead(tree);
    expect(server.diagnostics.exit).toBe("Exited with code 3");
  });

  test.for<[string, readonly ServerLayer[]]>([
    ["with every layer", []],
    ["as the host's user", ["user"]],
  ])("ends when the host is killed: %s", async ([, without]) => {
    const host = fork(HOST_SCRIPT, [JSON.stringify(without)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const [pid] = (await once(host, "message")) as [number];
    const tree = treeOf(pid);
    expect(tree.length).toBeGreaterThanOrEqual(2);
    expect(tree.every(isAlive)).toBe(true);
    host.kill("SIGKILL");
    await expectDead(tree);
  });
});

describe("a configured sandbox", () => {
  test("has no network with network: false", async () => {
    const script = "cat /proc/net/dev >&2";
    const { server, closed } = await shell(script, { sandbox: { network: false } });
    await closed;
    expect(
      server.diagnostics.stderr
        .trim()
        .split("\n")
        .slice(2)
        .map((line) => line.trim().split(":")[0]),
    ).toEqual(["lo"]);
  });

  test("limits memory and file descriptors", async () => {
    const script = "ulimit -d >&2; ulimit -n >&2";
    const { server, closed } = await shell(script, { sandbox: { memoryMiB: 64, descriptors: 32 } });
    await closed;
    expect(server.diagnostics.stderr).toBe("65536\n32\n");
  });

  test("is rejected if its options contradict each other", async () => {
    const server = new ServerProcess({
      command: "cat",
      environment: process.env,
      sandbox: { require: ["namespaces"], without: ["namespaces"] },
    });
    await expect(server.start()).rejects.toThrow(/required layers are not available on this machine: namespaces/);
  });
});
