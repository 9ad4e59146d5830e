// Releases: stored versions of a tool, loaded when they first run, chosen by weight, session or name.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { ToolInspection } from "../../../src/host/config/tool-options.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { ReleaseVersion } from "../../../src/host/glovebox/tool-releases.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" } as const;
const noted: string[] = [];
const note = defineCapability({
  name: "note",
  inputSchema: {},
  outputSchema: {},
  handler: (_, { callId }) => {
    noted.push(callId);
    return null;
  },
});
let glovebox: Glovebox;
const inspections = new Map<string, ToolInspection>();

const sourceOf = (says: string): string => `export const description = "says ${says}"; export default () => "${says}";`;

async function inspected(name: string, says: string): Promise<ToolInspection> {
  const key = JSON.stringify([name, says]);
  const known = inspections.get(key) ?? (await glovebox.inspectTool({ source: sourceOf(says), name }, ACME));
  inspections.set(key, known);
  return known;
}

async function versionOf(
  name: string,
  says: string,
  weight: number,
): Promise<ReleaseVersion & { load: ReturnType<typeof vi.fn> }> {
  const { definition, bundle } = await inspected(name, says);
  return { version: says, weight, definition, sha256: bundle.sha256, load: vi.fn(() => bundle) } as never;
}

const run = (toolName: string, context: object = {}) =>
  glovebox.execute({ id: "c", toolName }, { ...ACME, ...context });

beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi", capabilities: [note] });
});
afterAll(() => glovebox.close());

describe("a release", () => {
  test("loads the code of a version when it first runs, once", async () => {
    const one = await versionOf("lazy", "one", 1);
    glovebox.setRelease("lazy", [one], ACME);
    expect(one.load).not.toHaveBeenCalled();
    const results = await Promise.all([run("lazy"), run("lazy")]);
    expect(results.map(outputOf)).toEqual(["one", "one"]);
    expect(results[0]?.toolVersion).toBe("one");
    expect(one.load).toHaveBeenCalledTimes(1);
  });

  test("runs the version that a call names, also one with weight 0", async () => {
    glovebox.setRelease("named", [await versionOf("named", "one", 1), await versionOf("named", "two", 0)], ACME);
    expect(outputOf(await run("named"))).toBe("one");
    const named = await run("named", { toolVersion: "two" });
    expect([outputOf(named), named.toolVersion]).toEqual(["two", "two"]);
    const error = errorOf(await run("named", { toolVersion: "three" }));
    expect([error.code, error.details?.reason]).toEqual(["TOOL_UNAVAILABLE", "not_found"]);
  });

  test("divides calls by weight, and keeps a session on its version while a canary grows", async () => {
    const [live, canary] = [await versionOf("split", "one", 70), await versionOf("split", "two", 30)];
    glovebox.setRelease("split", [live, canary], ACME);
    const sessions = Array.from({ length: 40 }, (_, index) => `session-${index}`);
    const versions = async (): Promise<(string | undefined)[]> =>
      await Promise.all(sessions.map(async (sessionId) => (await run("split", { sessionId })).toolVersion));
    const first = await versions();
    expect(new Set(first)).toEqual(new Set(["one", "two"]));
    expect(await versions()).toEqual(first);
    glovebox.setRelease(
      "split",
      [
        { ...live, weight: 30 },
        { ...canary, weight: 70 },
      ],
      ACME,
    );
    const later = await versions();
    for (const [index, version] of first.entries()) if (version === "two") expect(later[index]).toBe("two");
  });

  test("lists the definition of its largest version, and only for its owner", async () => {
    glovebox.setRelease("listed", [await versionOf("listed", "one", 1), await versionOf("listed", "two", 9)], ACME);
    const listed = (await glovebox.listTools(ACME)).find(({ name }) => name === "listed");
    expect(listed?.description).toBe("says two");
    expect(await glovebox.listTools({ tenantId: "beta" })).toEqual([]);
  });

  test("lets running calls end on the version that they began with", async () => {
    const slow = await glovebox.inspectTool(
      {
        source: "export default async () => { await new Promise((r) => setTimeout(r, 400)); return 'old'; }",
        name: "swap",
      },
      ACME,
    );
    const before = {
      version: "1",
      weight: 1,
      definition: slow.definition,
      sha256: slow.bundle.sha256,
      load: () => slow.bundle,
    };
    glovebox.setRelease("swap", [before], ACME);
    const running = run("swap");
    await vi.waitFor(() => expect(glovebox.listCalls(ACME).map(({ state }) => state)).toContain("running"));
    glovebox.setRelease("swap", [await versionOf("swap", "new", 1)], ACME);
    expect(outputOf(await run("swap"))).toBe("new");
    expect(outputOf(await running)).toBe("old");
  });

  test("fails a call whose code cannot be loaded or has another hash, and tries again for the next call", async () => {
    const good = await versionOf("broken", "one", 1);
    let load: () => unknown = () => Promise.reject(new Error("the disk is gone"));
    glovebox.setRelease("broken", [{ ...good, load: () => load() as never }], ACME);
    expect(errorOf(await run("broken")).code).toBe("INTERNAL");
    const other = (await inspected("broken", "two")).bundle;
    load = () => other;
    expect(errorOf(await run("broken")).code).toBe("INTERNAL");
    load = good.load;
    expect(outputOf(await run("broken"))).toBe("one");
  });

  test.for(["call", "session"] as const)(
    "does not run a call that was cancelled while its code was loaded (an isolate for each %s)",
    async (isolateLifetime) => {
      const source = "export default (_, ctx) => ctx.note();";
      const options = { grant: ["note"], limits: { maxConcurrentCalls: 1 }, isolateLifetime };
      const { definition, bundle } = await glovebox.inspectTool({ source, name: "late" }, { ...ACME, grant: ["note"] });
      const code = Promise.withResolvers<typeof bundle>();
      const load = vi.fn(() => code.promise);
      const version = { version: "1", weight: 1, definition, sha256: bundle.sha256, load, ...options };
      glovebox.setRelease("late", [version], ACME);
      noted.length = 0;
      const controller = new AbortController();
      const call = (id: string, signal?: AbortSignal) =>
        glovebox.execute({ id, toolName: "late" }, { ...ACME, signal, sessionId: "s" });
      const cancelled = call("cancelled", controller.signal);
      await vi.waitFor(() => expect(load).toHaveBeenCalled());
      controller.abort();
      expect(errorOf(await cancelled).code).toBe("CANCELLED");
      code.resolve(bundle);
      // It would run after the cancelled call, because the tool runs one call at a time.
      expect(outputOf(await call("next"))).toBe(null);
      expect(noted).toEqual(["next"]);
    },
  );

  test("loads Python from its files", async () => {
    const files = { "tool.py": "def main(input):\n    return 'python'\n" };
    const { definition, bundle } = await glovebox.inspectTool({ files, name: "snake", language: "python" }, ACME);
    const version = {
      version: "1",
      weight: 1,
      definition,
      sha256: bundle.sha256,
      language: "python",
      load: () => ({ files }),
    } as const;
    glovebox.setRelease("snake", [version], ACME);
    expect(outputOf(await run("snake"))).toBe("python");
  });

  test("rejects a name that is taken, a definition of another name, and versions of the same name", async () => {
    await glovebox.addTool({ source: sourceOf("x"), name: "taken" }, ACME);
    const version = await versionOf("taken", "one", 1);
    expect(() => glovebox.setRelease("taken", [version], ACME)).toThrow(
      expect.objectContaining({ code: "NAME_TAKEN" }),
    );
    const invalid = expect.objectContaining({ code: "PARAM_INVALID" });
    expect(() => glovebox.setRelease("other", [version], ACME)).toThrow(invalid);
    expect(() => glovebox.setRelease("taken", [version, version], ACME)).toThrow(invalid);
    expect(() => glovebox.setRelease("taken", [], ACME)).toThrow(invalid);
    expect(() => glovebox.setRelease("taken", [{ ...version, extra: 1 } as never], ACME)).toThrow(invalid);
  });

  test("is removed with removeTool", async () => {
    glovebox.setRelease("gone", [await versionOf("gone", "one", 1)], ACME);
    expect(glovebox.removeTool("gone", ACME)).toBe(true);
    expect(errorOf(await run("gone")).code).toBe("TOOL_UNAVAILABLE");
  });
});

describe("a release that drops a version whose circuit is open", () => {
  const HANGS =
    "export default () => { console.log('begun'); return new Promise((done) => setTimeout(done, 60_000)); }";
  const TWO = "export default () => 'two'";

  /** A host with the release "fixed" of a version that hangs, and a function that releases the second version instead. */
  async function hostOf(openMs: number) {
    const own = await makeGlovebox({ health: { failures: 1, openMs, maxOpenMs: openMs } });
    const versionOf = async (version: string, source: string): Promise<ReleaseVersion> => {
      const { definition, bundle } = await own.inspectTool({ source, name: "fixed" });
      return { version, weight: 1, definition, sha256: bundle.sha256, load: () => bundle };
    };
    const [one, two] = [await versionOf("1", HANGS), await versionOf("2", TWO)];
    own.setRelease("fixed", [one]);
    const call = (onLog?: () => void) => own.execute({ id: "c", toolName: "fixed" }, { ...(onLog && { onLog }) });
    const begin = async (): Promise<{ readonly running: ReturnType<typeof call> }> => {
      const begun = Promise.withResolvers<void>();
      const running = call(begun.resolve);
      await begun.promise;
      return { running };
    };
    const kill = (): void => {
      for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
    };
    const { running } = await begin();
    kill();
    expect(errorOf(await running).code).toBe("SANDBOX_CRASHED");
    expect(own.health()).toMatchObject([{ sourceId: "sandbox:fixed", state: "open" }]);
    return { own, call, begin, kill, fix: () => own.setRelease("fixed", [two]) };
  }

  test("calls the next version at once", async () => {
    const { own, call, fix } = await hostOf(60_000);
    await using _own = own;
    expect(errorOf(await call()).details?.reason).toBe("circuit_open");
    fix();
    expect(outputOf(await call())).toBe("two");
  });

  test("calls the next version while the probe of the dropped one runs, and after it", async () => {
    const { own, call, begin, kill, fix } = await hostOf(10);
    await using _own = own;
    await vi.waitFor(() => expect(own.health()[0]?.nextProbeAt).toBeLessThan(Date.now()));
    const { running } = await begin();
    expect(own.health()).toMatchObject([{ state: "half-open" }]);
    fix();
    expect(outputOf(await call())).toBe("two");
    kill();
    expect(errorOf(await running).code).toBe("SANDBOX_CRASHED");
    expect(own.health()).toMatchObject([{ sourceId: "sandbox:fixed", state: "closed" }]);
    expect(outputOf(await call())).toBe("two");
  });
});
