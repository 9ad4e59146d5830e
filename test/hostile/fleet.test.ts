// A hostile executor: it has valid credentials and speaks the protocol, but lies. It must neither read nor change a call of another
// executor, nor use a capability that its own call was not granted.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { loadPythonAssets } from "../../src/bundler/python/python-assets.ts";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import { defineCapability } from "../../src/host/capabilities/capability.ts";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import { natsOf } from "../../src/host/fleet/nats-library.ts";
import type { ObjectRef } from "../../src/host/fleet/protocol/message-fields.ts";
import {
  aliveSubject,
  CONTROL_INBOX,
  controlSubject,
  executorPermissions,
  executorSubject,
  workStreamName,
  workSubject,
} from "../../src/host/fleet/protocol/subjects.ts";
import { encodeFrame, FLEET_PROTOCOL_VERSION } from "../../src/host/fleet/protocol/wire.ts";
import { WorkStream } from "../../src/host/fleet/work-stream.ts";
import type { ToolResult } from "../../src/host/index.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { ENDED, event, HostileExecutor, type Run } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const bundleOf = ({ bundle }: Run): ObjectRef => bundle as ObjectRef;
const LOG = { type: "log", seq: 1, level: "info", time: 1 };

/** What the executor sends after it has accepted a call and sent a log line. */
const ATTACKS: readonly (readonly [what: string, attack: (evil: HostileExecutor, run: Run) => void])[] = [
  [
    "bytes that are no message",
    (evil, { control }) => evil.connection.publish(controlSubject(control, evil.id), Buffer.from("GET / HTTP/1.1")),
  ],
  ["an unknown message", (evil, run) => evil.send(run, { type: "promote", n: 3 })],
  ["an unknown field", (evil, run) => evil.send(run, { type: "placed", n: 3, tenantId: "victim" })],
  ["an event of no call", (evil, run) => evil.send(run, event(3, { type: "pong" }))],
  ["an invalid event", (evil, run) => evil.send(run, event(3, { ...ENDED, outcome: "won" }), ["1"])],
  ["chunks that were not requested", (evil, run) => evil.send(run, event(3, { type: "chunks", seq: 1 }), ["1"])],
  ["a missing part", (evil, run) => evil.send(run, event(3, LOG))],
  [
    "more log lines than its call may write",
    (evil, run) => {
      for (let n = 3; n <= 12_000; n += 1) evil.send(run, event(n, LOG), ["x"]);
    },
  ],
  [
    "a rejection of a call that it has accepted",
    (evil, run) => evil.send(run, { type: "rejected", n: 3, reason: "full" }),
  ],
  ["a number that was left out", (evil, run) => evil.send(run, { type: "placed", n: 5 })],
  [
    "an object that does not exist",
    (evil, run) => evil.send(run, { type: "object", n: 3, name: "none", sha256: "0".repeat(64), bytes: 9 }),
  ],
  [
    "parts that are larger than it was asked for",
    (evil, run) => {
      evil.offer = ({ length }) => Buffer.alloc(length + 1);
      evil.send(run, { type: "object", n: 3, name: "long", sha256: "0".repeat(64), bytes: 9 });
    },
  ],
  [
    "more requests for its bundle than a reader sends",
    (evil, run) => {
      const { name } = bundleOf(run);
      for (let times = 0; times < 1_000; times += 1) evil.send(run, { type: "fetch", name, from: 0, length: 1 });
    },
  ],
  [
    "an object that is larger than its call may send",
    (evil, run) =>
      evil.send(run, { type: "object", n: 3, name: "huge", sha256: "0".repeat(64), bytes: 80 * 1024 * 1024 }),
  ],
  [
    "sessions that have ended for an unknown reason",
    (evil, run) =>
      evil.send(run, { type: "sessions-ended", token: undefined, sessions: [["x".repeat(22), "the end of time"]] }),
  ],
  [
    "names that are none of sessions",
    (evil, run) => evil.send(run, { type: "sessions-ended", token: undefined, sessions: [["s", "other"]] }),
  ],
  [
    "a list of its calls without this one",
    (evil, run) => evil.send(run, { type: "running", token: undefined, calls: [] }),
  ],
];

/** What the executor sends while a control plane reads an object of its call, which it sends no part of. */
const FLOODS: readonly (readonly [what: string, flood: (evil: HostileExecutor, run: Run, n: number) => void])[] = [
  ["events", (evil, run, n) => evil.send(run, event(n, LOG), ["x".repeat(100_000)])],
  [
    "more objects",
    (evil, run, n) => evil.send(run, { type: "object", n, name: `o${n}`, sha256: "0".repeat(64), bytes: 9 }),
  ],
  [
    "losses",
    (evil, run, n) =>
      evil.send(run, { type: "lost", n, begun: true, outOfMemory: false, isNotStarted: false, peakBytes: 0 }),
  ],
];

/** A tenant whose calls wait for an executor of the pool "evil" for a short time only. */
const IMPATIENT = "impatient";
/** The work queue of a server that uses the same NATS server. */
const QUEUE = "0123456789abcdef";
const WORK_STREAM = workStreamName(QUEUE);
const GOOD = { id: "good", pool: "default" };
const EVIL = { id: "evil", pool: "evil" };
const WAITING = { id: "call_waiting", tenantId: "victim", fence: 0 };

describe.skipIf(!hasNatsServer)("a hostile executor", () => {
  let fleet: Fleet;
  let good: RunningExecutor;
  let evil: HostileExecutor;
  let work: WorkStream;
  const errors: string[] = [];
  /** Opened for the calls of a test: until then, those of the tool `waits` wait. */
  let gate = Promise.withResolvers<string>();
  const ids = [
    "evil",
    ...ATTACKS.map((_, index) => `evil-${index}`),
    ...FLOODS.map((_, index) => `flood-${index}`),
    "gives-up",
  ];
  const folder = mkdtempSync(join(tmpdir(), "glovebox-hostile-"));

  const call = (tenantId: string, toolName: string): Promise<ToolResult> =>
    fleet.host.execute({ id: toolName, toolName, arguments: { secret: `of ${tenantId}` } }, { tenantId });
  /** Connects a hostile executor, which is alone in a pool of its name. The calls of the tenant of this name run there. */
  const open = async (id: string): Promise<HostileExecutor> => {
    const credentials = fleet.credentialsOf(id);
    const opened = new HostileExecutor(
      id,
      await connectFleet({ urls: [fleet.nats.url], credentials, role: "executor" }),
    );
    await fleet.until(id, true);
    return opened;
  };
  /** Calls a tool that the hostile executor is to run. */
  const lure = async (by: HostileExecutor, toolName = "echo"): Promise<{ run: Run; result: Promise<ToolResult> }> => {
    const before = by.runs.length;
    const result = call(by.id, toolName);
    await vi.waitFor(() => expect(by.runs.length).toBeGreaterThan(before));
    return { run: by.runs.at(-1) as Run, result };
  };

  beforeAll(async () => {
    fleet = await openFleet({
      executors: ["good", ...ids],
      poolOf: (id) => (id === "good" ? "default" : id),
      host: {
        tenancy: "multi",
        tenants: {
          victim: {},
          ...Object.fromEntries(ids.map((id) => [id, { pools: [id] }])),
          [IMPATIENT]: { pools: ["evil"], limits: { queueMs: 1_500 } },
        },
        capabilities: [
          defineCapability({ name: "gate", inputSchema: {}, outputSchema: {}, handler: () => gate.promise }),
        ],
        workers: { max: 4 },
        onError: (error) => void errors.push(String(error)),
      },
      // A call that an executor does not acknowledge within half of it is sent again.
      silenceMs: 60_000,
    });
    const echo = "export default (input) => input";
    const waits = "export default (_, ctx) => { console.log('begun'); return ctx.gate() }";
    const sources = { echo, waits, keeps: `export const capabilities = { kv: true }; ${echo}` };
    const grants: { readonly [name: string]: readonly string[] } = { waits: ["gate"], keeps: ["kv"] };
    for (const [name, source] of Object.entries(sources))
      await fleet.host.addTool({ name, source }, { scope: "global", grant: grants[name] ?? [] });
    good = await startExecutor({
      url: fleet.nats.url,
      credentials: fleet.credentialsOf("good"),
      cacheDir: folder,
      workers: { max: 2 },
    });
    evil = await open("evil");
    await fleet.until("good", true);
    work = await WorkStream.connect({
      urls: [fleet.nats.url],
      credentials: fleet.credentialsOf("control-plane"),
      database: QUEUE,
      onInvalid: (error) => expect.fail(error.message),
    });
    // On a busy machine, the connection can take longer than it waits.
    await vi.waitFor(async () => {
      if (!work.isOpen) await work.open();
    }, 60_000);
    expect(await work.publish("evil", WAITING)).toBe(true);
  });
  afterAll(async () => {
    await work?.[Symbol.asyncDispose]();
    await evil?.close();
    await good?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    gate = Promise.withResolvers();
  });

  test("cannot subscribe to the subjects of others, so it does not see their calls", async () => {
    const subjects = [
      executorSubject("good"),
      "glovebox.executor.*",
      "glovebox.>",
      "glovebox.alive.*",
      "glovebox.control.>",
      "glovebox.queue.>",
      `${CONTROL_INBOX}.>`,
      "_INBOX.>",
      ">",
      "$JS.EVENT.>",
    ];
    const stolen: string[] = [];
    for (const subject of subjects)
      evil.connection.subscribe(subject, ({ data }) => void stolen.push(Buffer.from(data).toString()));
    expect(await call("victim", "echo")).toMatchObject({ success: true, output: { secret: "of victim" } });
    await work.publish("default", { ...WAITING, id: "call_seen" });
    await natsOf(evil.connection).flush();
    expect(stolen).toEqual([]);
  });

  test.for<readonly [what: string, subject: string]>([
    ["reads a stream that holds messages of its own", "$JS.API.DIRECT.GET.ANY.glovebox.alive.evil.evil"],
    ["deletes a stream", `$JS.API.STREAM.DELETE.${WORK_STREAM}`],
    ["creates a stream", "$JS.API.STREAM.CREATE.MINE"],
    ["lists the streams", "$JS.API.STREAM.NAMES"],
    ["announces another executor", aliveSubject(GOOD)],
    ["announces another executor of its own pool", aliveSubject({ id: "good", pool: "evil" })],
    ["announces itself in another pool", aliveSubject({ id: "evil", pool: "default" })],
    ["announces itself in no pool", "glovebox.alive.evil"],
    ["sends a message as another executor", controlSubject("any", "good")],
    ["sends a message to another executor", executorSubject("good")],
    ["answers a request of a control plane", `${CONTROL_INBOX}.any`],
    ["requests its permissions", "$SYS.REQ.USER.INFO"],
    ["controls the flow of a consumer", `$JS.FC.${WORK_STREAM}.evil-0.1`],
    ["adds a call to the work queue", workSubject(QUEUE, "evil", 0, "call_forged")],
    ["takes a call from the work queue", `$JS.API.CONSUMER.MSG.NEXT.${WORK_STREAM}.evil-0`],
    ["creates a consumer of the work queue", `$JS.API.CONSUMER.DURABLE.CREATE.${WORK_STREAM}.mine`],
    ["deletes a consumer of the work queue", `$JS.API.CONSUMER.DELETE.${WORK_STREAM}.evil-0`],
    ["reads a message of the work queue", `$JS.API.STREAM.MSG.GET.${WORK_STREAM}`],
    ["reads a message of the work queue directly", `$JS.API.DIRECT.GET.${WORK_STREAM}.glovebox.queue.>`],
    ["deletes a message of the work queue", `$JS.API.STREAM.MSG.DELETE.${WORK_STREAM}`],
    ["purges the work queue", `$JS.API.STREAM.PURGE.${WORK_STREAM}`],
    ["asks how many calls wait", `$JS.API.STREAM.INFO.${WORK_STREAM}`],
    ["acknowledges a call of the work queue", `$JS.ACK.${WORK_STREAM}.evil-0.1.1.1.1.0`],
  ])("has no permission: it %s", async ([, subject]) => {
    evil.connection.publish(subject, Buffer.from("{}"), aliveSubject(EVIL));
    await vi.waitFor(() => expect(evil.denied).toContain(subject));
  });

  test("gets no answer of NATS to a subject that it names as the reply", async () => {
    const result = call("victim", "waits");
    await vi.waitFor(() => expect(good.busy).toBe(1));
    const { run, result: own } = await lure(evil);
    const { publish } = executorPermissions(EVIL);
    const subjects = [
      ...publish.map((subject) => subject.replaceAll("*", run.control)),
      controlSubject("none", "evil"),
    ];
    const replies = [
      ...["DELETE", "PURGE"].map((what) => `$JS.API.STREAM.${what}.${WORK_STREAM}`),
      `$JS.API.CONSUMER.DELETE.${WORK_STREAM}.evil-0`,
      `$JS.ACK.${WORK_STREAM}.evil-0.1.1.1.1.0`,
      workSubject(QUEUE, "evil", 0, "call_forged"),
      executorSubject("good"),
      aliveSubject(GOOD),
      controlSubject(run.control, "good"),
      `${CONTROL_INBOX}.any`,
    ];
    const before = await work.backlog();
    for (const subject of subjects) {
      for (const reply of replies) evil.connection.publish(subject, Buffer.from("{}"), reply);
    }
    await evil.connection.flush();
    evil.send(run, event(1, ENDED), ['"own"']);
    expect(await own).toMatchObject({ success: true, output: "own" });
    gate.resolve("right");
    expect(await result).toMatchObject({ success: true, output: "right" });
    expect(await work.backlog()).toEqual(before);
    expect(fleet.host.fleet.lost).toEqual([]);
  });

  test("does not end calls of another executor with bytes that NATS sends on its behalf", async () => {
    // A stream that captures announcements answers them, to any subject. No operator should have one.
    const credentials = fleet.credentialsOf("control-plane");
    await using control = await connectFleet({ urls: [fleet.nats.url], credentials, role: "control-plane" });
    const { jetstreamManager } = await import("@nats-io/jetstream");
    const { streams } = await jetstreamManager(natsOf(control));
    await streams.add({ name: "CAPTURES", subjects: ["glovebox.alive.>"] });
    try {
      const result = call("victim", "waits");
      await vi.waitFor(() => expect(good.busy).toBe(1));
      const { run, result: own } = await lure(evil);
      const subject = controlSubject(run.control, "good");
      const arrived = new Promise((resolve) =>
        control.subscribe(subject, ({ data }) => data[0] === 0x7b && resolve(0)),
      );
      await control.flush();
      evil.connection.publish(aliveSubject(EVIL), Buffer.from("{}"), subject);
      await arrived;
      evil.send(run, event(1, ENDED), ['"own"']);
      expect(await own).toMatchObject({ success: true, output: "own" });
      gate.resolve("right");
      expect(await result).toMatchObject({ success: true, output: "right" });
      expect(fleet.host.fleet.lost).toEqual([]);
      expect(errors.join("\n")).toMatch(/were ignored/);
    } finally {
      await streams.delete("CAPTURES");
    }
  });

  test("reads only the objects of calls that it was given", async () => {
    const { run: ended, result: first } = await lure(evil, "keeps");
    evil.send(ended, event(1, ENDED), ["1"]);
    expect(await first).toMatchObject({ success: true });
    const { run, result } = await lure(evil);
    const token = randomBytes(16).toString("base64url");
    const read = async (of: Run, from: Run): Promise<Buffer | undefined> => {
      const before = evil.parts.length;
      const { name } = bundleOf(from);
      evil.send(of, { type: "fetch", name, from: 0, length: 4 });
      await vi.waitFor(() => expect(evil.parts.length).toBe(before + 1));
      return evil.parts.at(-1)?.bytes;
    };
    expect(await read(run, run)).toHaveLength(4);
    expect(await read(run, ended)).toBeUndefined();
    expect(await read(ended, ended)).toBeUndefined();
    expect(await read({ ...run, token }, run)).toBeUndefined();
    evil.send(run, event(1, ENDED), ['"own"']);
    expect(await result).toMatchObject({ success: true });
  });

  test("leaves the work queue as it is: control planes get the call that waits", async () => {
    const waiting = Promise.withResolvers<string>();
    const pull = work.pull("evil", work.shardOf("victim"), 1, (delivery) => {
      delivery.ack();
      waiting.resolve(delivery.id);
    });
    expect(await waiting.promise).toBe(WAITING.id);
    pull.close();
  });

  test("cannot send messages as another executor, or to one", async () => {
    const result = call("victim", "waits");
    await vi.waitFor(() => expect(good.busy).toBe(1));
    const { run, result: own } = await lure(evil);
    const cancel = encodeFrame({ type: "cancel", key: evil.key, token: run.token });
    const { key } = evil;
    const drain = encodeFrame({ type: "drain", key });
    for (const message of [cancel, drain]) evil.connection.publish(executorSubject("good"), message);
    const alive = {
      type: "alive",
      protocol: FLEET_PROTOCOL_VERSION,
      key,
      version: "0",
      since: 0,
      slots: 1,
      busy: 0,
      isDraining: true,
    };
    evil.connection.publish(aliveSubject(GOOD), encodeFrame(alive));
    evil.send(run, { type: "running", token: undefined, calls: [] }, [], "good");
    // NATS answers to the subject that the sender names: the answer is no message of a control plane.
    for (const message of [cancel, drain])
      evil.connection.publish(controlSubject("none", "evil"), message, executorSubject("good"));
    evil.send(run, event(1, ENDED), ['"own"']);
    expect(await own).toMatchObject({ success: true, output: "own" });
    gate.resolve("right");
    expect(await result).toMatchObject({ success: true, output: "right" });
    expect(fleet.host.fleet.executors.find(({ id }) => id === "good")).toMatchObject({ isDraining: false });
  });

  test("gets no calls of another pool, whatever it says of itself", async () => {
    for (const claims of [{ pool: "default" }, { id: "good", pool: "default" }]) {
      evil.claims = claims;
      const before = evil.announcements;
      await vi.waitFor(() => expect(evil.announcements).toBeGreaterThan(before + 1));
      await natsOf(evil.connection).flush();
      const pools = fleet.host.fleet.executors.map(({ id, pool }) => [id, pool]);
      expect(pools).toEqual([
        ["evil", "evil"],
        ["good", "default"],
      ]);
    }
    evil.claims = {};
    const before = evil.runs.length;
    for (let times = 0; times < 4; times += 1)
      expect(await call("victim", "echo")).toMatchObject({ success: true, output: { secret: "of victim" } });
    expect(evil.runs).toHaveLength(before);
  });

  test("cannot end a call of another executor with a guessed token, or its own call twice", async () => {
    const result = call("victim", "waits");
    const { run, result: own } = await lure(evil);
    const guessed = Buffer.alloc(16, 7).toString("base64url");
    evil.send(run, { ...event(1, ENDED), token: guessed }, ['"forged"']);
    evil.send(run, event(1, ENDED), ['"own"']);
    evil.send(run, event(2, ENDED), ['"changed"']);
    expect(await own).toMatchObject({ success: true, output: "own" });
    gate.resolve("right");
    expect(await result).toMatchObject({ success: true, output: "right" });
  });

  test("gets only the capabilities of its call, with the call's tenant", async () => {
    await fleet.host.execute({ id: "k", toolName: "keeps", arguments: {} }, { tenantId: "victim" });
    const { run, result } = await lure(evil, "keeps");
    const request = (n: number, name: string, input: unknown): void =>
      evil.send(run, event(n, { type: "capability", seq: 1, requestId: n, name }), [JSON.stringify(input)]);
    const before = evil.answers.length;
    request(1, "fetch", { url: "http://127.0.0.1/" });
    request(2, "tools", { name: "echo", input: {} });
    request(3, "secrets", { op: "use", args: ["token"] });
    request(4, "kv", { op: "get", args: ["x"], tenantId: "victim" });
    request(5, "nothing", {});
    await vi.waitFor(() => expect(evil.answers.length).toBe(before + 5));
    const envelopes = new Map(evil.answers.slice(before).map(({ message, envelope }) => [message.requestId, envelope]));
    for (const id of [1, 2, 3, 5]) expect(envelopes.get(id)).toMatchObject({ ok: false, code: "CAPABILITY_DENIED" });
    expect(envelopes.get(4)).toMatchObject({ ok: false });
    evil.send(run, event(6, ENDED), ["1"]);
    expect(await result).toMatchObject({ success: true });
  });

  test.for(ATTACKS.map(([what, attack], index) => ({ what, attack, id: `evil-${index}` })))(
    "ends only its own call with $what",
    async ({ attack, id }) => {
      const attacker = await open(id);
      const other = call("victim", "echo");
      const { run, result } = await lure(attacker);
      attacker.send(run, { type: "accepted", n: 1 });
      attacker.send(run, event(2, LOG), ["a line"]);
      attack(attacker, run);
      expect(await result).toMatchObject({
        success: false,
        error: { code: "SANDBOX_CRASHED", details: { begun: true } },
      });
      expect(await other).toMatchObject({ success: true, output: { secret: "of victim" } });
      await attacker.close();
    },
  );

  /** Offers an object that it sends no part of. */
  const offerNothing = async (by: HostileExecutor): Promise<{ run: Run; result: Promise<ToolResult> }> => {
    const { run, result } = await lure(by);
    const requested = Promise.withResolvers<void>();
    by.offer = () => {
      requested.resolve();
      return "silence";
    };
    by.send(run, event(1, LOG), ["a line"]);
    by.send(run, { type: "object", n: 2, name: "withheld", sha256: "0".repeat(64), bytes: 9 });
    await requested.promise;
    return { run, result };
  };

  test.for(FLOODS.map(([what, flood], index) => ({ what, flood, id: `flood-${index}` })))(
    "cannot fill the memory of a control plane with $what while its object is read",
    async ({ flood, id }) => {
      const attacker = await open(id);
      const { run, result } = await offerNothing(attacker);
      flood(attacker, run, 3);
      flood(attacker, run, 4);
      const rejected = expect.objectContaining({ id, reason: "rejected" });
      await vi.waitFor(() => expect(fleet.host.fleet.lost).toContainEqual(rejected));
      expect(await result).toMatchObject({ success: false, error: { code: "SANDBOX_CRASHED" } });
      await attacker.close();
    },
  );

  test("may give up a call while its object is read", async () => {
    const attacker = await open("gives-up");
    const { run, result } = await offerNothing(attacker);
    const loss = { begun: true, outOfMemory: false, isNotStarted: false, peakBytes: 0 };
    attacker.send(run, { type: "lost", n: 3, ...loss });
    attacker.offer = () => undefined;
    expect(await result).toMatchObject({ success: false, error: { code: "SANDBOX_CRASHED" } });
    expect(fleet.host.fleet.lost.map(({ id }) => id)).not.toContain("gives-up");
    await attacker.close();
  });

  describe("that says that it runs Python", () => {
    /** Calls a Python tool as a tenant of the hostile executor's pool that does not wait long for it. */
    const python = async (): Promise<ToolResult> =>
      await fleet.host.execute({ id: "py", toolName: "py", arguments: {} }, { tenantId: IMPATIENT });

    beforeAll(async () => {
      // A source that executors read as an object.
      const source = `"""${"of the author ".repeat(400)}"""\ndef main(input):\n    return "right"\n`;
      await fleet.host.addTool({ name: "py", source, language: "python" }, { scope: "global" });
    });

    // A pool that has had no Python for a minute may have none, and executors with another version may be upgraded.
    test.for([
      ["no language", undefined, /^(?:OVERLOADED|TOOL_UNAVAILABLE)$/],
      ["only languages that this version does not know", '{"cobol":1}', /^(?:OVERLOADED|TOOL_UNAVAILABLE)$/],
      ["another version", JSON.stringify({ python: "0".repeat(64), isPythonReady: true }), /^OVERLOADED$/],
    ] as const)("gets no Python calls with %s", async ([, languages, codes]) => {
      evil.languages = languages;
      await vi.waitFor(() => {
        const info = fleet.host.fleet.executors.find(({ id }) => id === "evil");
        expect(info?.languages).toHaveLength(languages?.includes("python") === true ? 2 : 1);
      });
      const before = evil.runs.length;
      const code = expect.stringMatching(codes);
      expect(await python()).toMatchObject({ success: false, error: { code } });
      expect(evil.runs).toHaveLength(before);
    });

    test("is requested to prepare it, and gets no Python calls before it is ready", async () => {
      const { key } = await loadPythonAssets(await loadSandboxArtifacts());
      evil.languages = JSON.stringify({ python: key });
      await vi.waitFor(() => expect([...evil.runtimes]).toEqual([key]));
      const before = evil.runs.length;
      expect(await python()).toMatchObject({ success: false, error: { code: "OVERLOADED" } });
      expect(evil.runs).toHaveLength(before);
    });

    test("returns false results for its own calls, and reads only their objects", async () => {
      const { key } = await loadPythonAssets(await loadSandboxArtifacts());
      evil.languages = JSON.stringify({ python: key, isPythonReady: true });
      const before = evil.runs.length;
      const result = fleet.host.execute({ id: "py", toolName: "py", arguments: {} }, { tenantId: "evil" });
      await vi.waitFor(() => expect(evil.runs.length).toBeGreaterThan(before));
      const run = evil.runs.at(-1) as Run;
      expect([run.python?.runtime, run.bundle]).toEqual([key, undefined]);
      const source = run.python?.source as ObjectRef;
      evil.send(run, { type: "fetch", name: source.name, from: 0, length: 16 });
      await vi.waitFor(() => expect(evil.parts.at(-1)?.name).toBe(source.name));
      expect(evil.parts.at(-1)?.bytes?.toString()).toBe('{"mode":"tool","');
      // Tools of all tenants share the runtime: what it loads is not for an executor to say.
      evil.send(run, event(1, { ...ENDED, usedModules: ["crypto"] }), ['"false"']);
      expect(await result).toMatchObject({ success: true, output: "false" });
      const other = fleet.host.execute({ id: "py", toolName: "py", arguments: {} }, { tenantId: "victim" });
      const served = await other;
      expect(served.success ? served.output : served.error).toBe("right");
    });

    test("takes no part in builds, snapshots and code caches of Python", async () => {
      const before = evil.runs.length;
      const source = "def main(input):\n    return 1\n";
      const own = await fleet.host.addTool({ name: "own", source, language: "python" }, { tenantId: "evil" });
      expect(own.name).toBe("own");
      expect(evil.runs).toHaveLength(before);
    });
  });

  test("takes no part in builds: definitions and code caches are extracted on the control plane", async () => {
    const before = evil.runs.length;
    const tool = await fleet.host.addTool({ name: "built", source: "export default () => 1" }, { tenantId: "evil" });
    expect(tool.name).toBe("built");
    expect(evil.runs).toHaveLength(before);
  });

  test("cannot replace an object: one with another hash ends its call", async () => {
    const { run, result } = await lure(evil);
    const stored = encodeFrame({ ...event(2, ENDED), token: run.token }, ['"other"']);
    evil.offer = ({ from, length }) => stored.subarray(from, from + length);
    evil.send(run, event(1, LOG), ["a line"]);
    const bytes = stored.byteLength;
    evil.send(run, { type: "object", n: 2, name: "forged", sha256: "0".repeat(64), bytes });
    expect(await result).toMatchObject({ success: false, error: { code: "SANDBOX_CRASHED" } });
  });
});
