// The image of the server and of executors.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { PYODIDE_VERSION } from "../../src/bundler/python/python-runtime.ts";

const dockerfile = readFileSync(new URL("../../deploy/Dockerfile", import.meta.url), "utf8");

test("the image has the version of Pyodide that this version of Glovebox needs", () => {
  expect(dockerfile).toContain(` pyodide@${PYODIDE_VERSION}\n`);
});

test("a container is healthy while its server is ready, or its executor writes its file", async () => {
  const [, text = "[]"] = /^HEALTHCHECK .*\\\n {2}CMD (.*)$/m.exec(dockerfile) ?? [];
  const [, flag = "", script = ""] = JSON.parse(text) as readonly string[];
  const folder = mkdtempSync(join(tmpdir(), "glovebox-health-"));
  const server = createServer((request, response) => {
    response.statusCode = request.url === "/readyz" ? 200 : 404;
    response.end();
  });
  onTestFinished(async () => {
    rmSync(folder, { recursive: true });
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const file = join(folder, "alive");
  const isHealthy = async (): Promise<boolean> => {
    const env = { GLOVEBOX_EXECUTOR_ALIVE_FILE: file };
    const child = spawn(process.execPath, [flag, script.replace("7070", String(port))], { env, stdio: "inherit" });
    return (await once(child, "exit"))[0] === 0;
  };
  expect(await isHealthy()).toBe(true);
  await new Promise((resolve) => server.close(resolve));
  expect(await isHealthy()).toBe(false);
  writeFileSync(file, "");
  expect(await isHealthy()).toBe(true);
  const minuteAgo = Date.now() / 1_000 - 60;
  utimesSync(file, minuteAgo, minuteAgo);
  expect(await isHealthy()).toBe(false);
});
