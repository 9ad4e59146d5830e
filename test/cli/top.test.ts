// glovebox top, at a server that restarts: a real HTTP server whose answers the test chooses.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { topCommand } from "../../src/cli/commands/top.ts";
import { CliOutput } from "../../src/cli/terminal/output.ts";
import type { Io } from "../../src/cli/terminal/process-io.ts";

const TOTAL = { calls: 1, failed: 0, p50: 1, p95: 1, p99: 1, waitP95: null };
const ANSWERS: { readonly [path: string]: object } = {
  "/v1/workers": { version: "1.2.3", uptimeSeconds: 7_300, rssBytes: 1, workers: [], running: [], runningTotal: 0 },
  "/v1/overview": { total: TOTAL, tools: [], queued: 0, problems: [] },
};

test("goes on after a restart of the server and an outage of its database, and ends when its key is revoked", async () => {
  let status = 200;
  const server = createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    response.writeHead(status, { "content-type": "application/json" });
    response.end(
      JSON.stringify(status === 200 ? ANSWERS[path] : { error: { code: "SHUTTING_DOWN", message: "ending" } }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const stream = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 100 });
  let screen = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    screen = text;
  });
  const output = new CliOutput(stream, () => {});
  const stop = new AbortController();
  const { port } = server.address() as AddressInfo;
  const env = { GLOVEBOX_URL: `http://127.0.0.1:${port}`, GLOVEBOX_API_KEY: "gbx_key" };
  const io = { env, stdout: output, stderr: output, stop: stop.signal } as unknown as Io;
  const shown = (text: string | RegExp) => expect.poll(() => screen, { timeout: 60_000 }).toMatch(text);
  // Otherwise, one line of JSON is printed.
  const { isTTY } = process.stdout;
  process.stdout.isTTY = true;
  onTestFinished(() => {
    process.stdout.isTTY = isTTY;
  });
  const ended = topCommand({ values: {}, positionals: [], stdin: false }, io);
  await shown(/Glovebox 1\.2\.3, up 2 h, .*0 worker processes/);
  await shown(/Last minute: 1 call, 0 % failed/);
  status = 503;
  await shown(/The server answers with 503 SHUTTING_DOWN\. Trying again[\s\S]*Glovebox 1\.2\.3/);
  status = 200;
  await expect.poll(() => screen, { timeout: 60_000 }).not.toContain("Trying again");
  // Before the answer that ends it: a rejection that nothing awaits would fail the test.
  ended.catch(() => {});
  status = 401;
  await expect(ended).rejects.toThrow("ending");
});
