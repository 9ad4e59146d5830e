// Tests the users of upstream servers' programs: no two that run have the same one, and a busy machine does not cost a program its layers.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { OTHER_UIDS } from "../../../src/host/workers/hardening/launcher.ts";

const isRoot = process.getuid?.() === 0;

test("a user id that was taken is not given out again before it is released", async () => {
  vi.resetModules();
  const { takeUid, releaseUid } = await import("../../../src/host/mcp/client/server-users.ts");
  const taken = Array.from({ length: OTHER_UIDS }, takeUid);
  expect(new Set(taken).size).toBe(OTHER_UIDS);
  expect(() => takeUid()).toThrow("user ids for programs are in use");
  const [first = 0] = taken;
  releaseUid(first);
  expect(takeUid()).toBe(first);
});

test.skipIf(!isRoot)("a user id that a process of another host has is not given out", async () => {
  vi.resetModules();
  const { takeUid, releaseUid } = await import("../../../src/host/mcp/client/server-users.ts");
  const uid = takeUid();
  releaseUid(uid);
  const other = spawn("sleep", ["600"], { uid, gid: uid, stdio: "ignore" });
  onTestFinished(() => void other.kill("SIGKILL"));
  await once(other, "spawn");
  const taken = Array.from({ length: OTHER_UIDS - 1 }, takeUid);
  expect(taken).not.toContain(uid);
  expect(() => takeUid()).toThrow("user ids for programs are in use");
});

/** Replaces the program `unshare` until the end of the test. */
function replaceUnshare(script: string): { isReplaced: boolean } {
  vi.resetModules();
  const tool = join(mkdtempSync(join(tmpdir(), "glovebox-tools-")), "unshare");
  writeFileSync(tool, `#!/bin/sh\n${script}\n`);
  chmodSync(tool, 0o755);
  const state = { isReplaced: true };
  vi.doMock(import("../../../src/host/workers/hardening/system-tools.ts"), async (original) => {
    const tools = await original();
    return {
      ...tools,
      findTool: (name: string) => (name === "unshare" && state.isReplaced ? tool : tools.findTool(name)),
    };
  });
  onTestFinished(() => {
    vi.doUnmock("../../../src/host/workers/hardening/system-tools.ts");
    vi.resetModules();
  });
  return state;
}

async function start(): Promise<ReadonlySet<string>> {
  const { ServerSandboxSchema, toServerCommand } = await import("../../../src/host/mcp/client/server-sandbox.ts");
  const program = { command: "true", args: [], cwd: "/", path: "/usr/bin:/bin" };
  return (await toServerCommand(program, ServerSandboxSchema.parse({}))).layers;
}

describe.skipIf(process.platform !== "linux")("the layers of a program", () => {
  test("do not depend on whether the machine is short of processes for a moment", async () => {
    const unshare = replaceUnshare("echo 'unshare: fork failed: Resource temporarily unavailable' >&2; exit 1");
    await expect(start()).rejects.toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: "sandbox: the layers of this machine could not be tried: this machine is short of memory or processes",
    });
    unshare.isReplaced = false;
    const layers = await start();
    if (isRoot) expect(layers).toContain("namespaces");
  });

  test("have no namespaces where a filter of system calls kills what makes them", async () => {
    replaceUnshare("kill -SYS $$");
    expect(await start()).not.toContain("namespaces");
  });
});
