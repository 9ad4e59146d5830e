// Tests the users of upstream servers' programs: no two that run have the same one, and a busy machine does not cost a program its layers.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { OTHER_UIDS } from "../../../src/host/workers/hardening/launcher.ts";

const isRoot = process.getuid?.() === 0;

type Users = typeof import("../../../src/host/mcp/client/server-users.ts");

/** Loads the module anew, as a host of its own. */
async function loadUsers(): Promise<Users> {
  vi.resetModules();
  return await import("../../../src/host/mcp/client/server-users.ts");
}

/** Takes all user ids that no program has, such as one of another test. */
function takeAll({ takeUid }: Users): readonly number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(takeUid());
  } catch (thrown) {
    expect(String(thrown)).toContain("user ids for programs are in use");
    return taken;
  }
}

test("a user id that was taken is not given out again before it is released", async () => {
  const users = await loadUsers();
  const [first = 0, ...others] = takeAll(users);
  expect(new Set(others).size).toBe(others.length);
  expect(others).not.toContain(first);
  expect(others.length).toBeGreaterThan(OTHER_UIDS / 2);
  users.releaseUid(first);
  const next = users.takeUid();
  expect(others).not.toContain(next);
});

test.skipIf(!isRoot)("a user id that a process of another host has is not given out", async () => {
  const uid = (await loadUsers()).takeUid();
  const other = spawn("sleep", ["600"], { uid, gid: uid, stdio: "ignore" });
  onTestFinished(() => void other.kill("SIGKILL"));
  await once(other, "spawn");
  expect(takeAll(await loadUsers())).not.toContain(uid);
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
