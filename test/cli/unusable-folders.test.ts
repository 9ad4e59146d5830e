// Commands that write into a folder in which nothing can be created: they end with an error that names the path.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { runCli } from "../../src/cli/cli.ts";
import { storeCredentials } from "../../src/cli/remote/connection.ts";
import { UsageError } from "../../src/cli/usage.ts";
import { createTestIo } from "../support/cli-io.ts";

/** Runs from its source, so that the test needs no build. */
const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

// Node's recursive mkdir never ends below /proc.
test.runIf(process.platform === "linux")("init ends where no folder can be created", async () => {
  const { io, written } = createTestIo();
  expect(await runCli(["init", "/proc/glovebox/tool"], io)).toBe(2);
  expect(written.stderr).toMatch(/^glovebox: \/proc\/glovebox\/tool cannot be written: ENOENT/);
});

/** Homes in which the cache of compiled code cannot be created. */
test.runIf(process.platform === "linux").for(["/proc/glovebox", "/dev/null", "/dev/null/home"])(
  "a command ends with the home %s",
  (home) => {
    // A command that hangs gets SIGKILL after the timeout, and has no exit code.
    const options = { env: { HOME: home }, encoding: "utf8", timeout: 120_000, killSignal: "SIGKILL" } as const;
    const { status, stderr } = spawnSync(process.execPath, [MAIN, "run", "no-such-tool.ts"], options);
    expect([status, stderr]).toEqual([2, expect.stringContaining("no-such-tool.ts")]);
  },
);

test("a command caches no compiled code in the working directory if HOME is empty", () => {
  const cwd = mkdtempSync(join(tmpdir(), "glovebox-home-"));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const { status } = spawnSync(process.execPath, [MAIN, "init", "--help"], { cwd, env: { HOME: "" } });
  expect([status, readdirSync(cwd)]).toEqual([0, []]);
});

test("login names the file that it cannot write", () => {
  const store = () => storeCredentials({ url: "http://localhost:7070", key: "k" }, { HOME: "/dev/null" });
  expect(store).toThrow(UsageError);
  expect(store).toThrow("/dev/null/.config/glovebox/credentials.json cannot be written: ENOTDIR");
});
