// `glovebox run --trace`: a page that shows one call without a server, also one whose values look like HTML.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { runInProcess } from "../support/cli-in-process.ts";
import { openBrowser, PATIENCE_MS } from "./browser.ts";

let browser: Browser;
const folder = mkdtempSync(join(tmpdir(), "glovebox-trace-"));
beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(async () => {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the page shows the timeline, the logs and the output, and runs nothing of them", async () => {
  const payload = "</script><script>globalThis.stolen = 1</script><img src=x onerror=globalThis.stolen=1>";
  const source = `export default async ({ text }) => { console.log("said", text); await new Promise((r) => setTimeout(r, 20)); return { text }; };`;
  writeFileSync(join(folder, "tool.js"), source);
  const file = join(folder, "trace.html");
  const { code, stderr } = await runInProcess([
    "run",
    join(folder, "tool.js"),
    "--input",
    JSON.stringify({ text: payload }),
    "--trace",
    file,
  ]);
  expect([code, stderr]).toEqual([0, expect.stringContaining("said")]);
  const page = await browser.newPage({ locale: "en-GB" });
  page.setDefaultTimeout(PATIENCE_MS);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => problems.push(message.text()));
  await page.goto(pathToFileURL(file).href);
  await page.getByText("Run the tool").waitFor();
  await page.getByRole("tab", { name: "Logs" }).click();
  await page.getByText("said </script>").waitFor();
  await page.getByRole("tab", { name: "Input and output" }).click();
  await page.getByText("stolen").first().waitFor();
  expect(await page.evaluate("globalThis.stolen")).toBeUndefined();
  expect(problems).toEqual([]);
  expect(readFileSync(file, "utf8")).not.toContain(payload);
});

test("a call that fails has a page too, and a file that cannot be written is an error", async () => {
  writeFileSync(join(folder, "fails.js"), "export default () => { throw new Error('broken'); };");
  const file = join(folder, "fails.html");
  expect((await runInProcess(["run", join(folder, "fails.js"), "--trace", file])).code).toBe(1);
  const page = await browser.newPage({ locale: "en-GB" });
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(pathToFileURL(file).href);
  await page.getByText("broken").first().waitFor();
  const missing = await runInProcess([
    "run",
    join(folder, "fails.js"),
    "--trace",
    join(folder, "missing", "trace.html"),
  ]);
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("cannot be written: ENOENT")]);
});

test("with --otel, the spans of the call reach the receiver", async () => {
  const received: string[] = [];
  const receiver = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      received.push(`${request.url} ${body}`);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  writeFileSync(join(folder, "spans.js"), "export const name = 'spans'; export default () => 1;");
  expect((await runInProcess(["run", join(folder, "spans.js"), "--otel"])).code).toBe(0);
  const traces = received.filter((text) => text.startsWith("/v1/traces ")).join("");
  expect(traces).toContain("execute_tool spans");
});
