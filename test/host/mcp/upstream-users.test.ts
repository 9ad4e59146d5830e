// Tests the users of upstream servers' programs: no two that run have the same one, and a busy machine does not cost a program its layers.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
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

test.skipIf(process.platform !== "linux")(
  "a machine that is short of processes for a moment costs no layer",
  async () => {
    vi.resetModules();
    const folder = mkdtempSync(join(tmpdir(), "glovebox-tools-"));
    const tool = join(folder, "unshare");
    writeFileSync(tool, "#!/bin/sh\necho 'unshare: fork failed: Resource temporarily unavailable' >&2\nexit 1\n");
    chmodSync(tool, 0o755);
    let isShort = true;
    vi.doMock(import("../../../src/host/workers/hardening/system-tools.ts"), async (original) => {
      const tools = await original();
      return { ...tools, findTool: (name: string) => (name === "unshare" && isShort ? tool : tools.findTool(name)) };
    });
    onTestFinished(() => {
      vi.doUnmock("../../../src/host/workers/hardening/system-tools.ts");
      vi.resetModules();
    });
    const { ServerSandboxSchema, toServerCommand } = await import("../../../src/host/mcp/client/server-sandbox.ts");
    const start = (): Promise<{ readonly layers: ReadonlySet<string> }> =>
      toServerCommand({ command: "true", args: [], cwd: "/", path: "/usr/bin:/bin" }, ServerSandboxSchema.parse({}));
    await expect(start()).rejects.toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: "sandbox: the layers of this machine could not be tried: this machine is short of memory or processes",
    });
    isShort = false;
    const { layers } = await start();
    if (isRoot) expect(layers).toContain("namespaces");
  },
);
