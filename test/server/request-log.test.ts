// The log of a server: its lifecycle, a line for each request, and failed authentications, whose number is bounded.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { pino } from "pino";
import { expect, test } from "vitest";
import { RequestLog } from "../../src/server/operation/request-log.ts";

const CHILD = fileURLToPath(new URL("support/log-child.ts", import.meta.url));

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly [name: string]: unknown;
}

async function linesAt(level: string): Promise<readonly Line[]> {
  const { stderr } = await promisify(execFile)(process.execPath, [CHILD, level]);
  expect(stderr).not.toMatch(/hidden|gbx_/);
  return stderr
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
}

const requestsOf = (lines: readonly Line[]): readonly unknown[] =>
  lines.filter(({ msg }) => msg === "request").map(({ method, route, status }) => `${method} ${route} ${status}`);

test("at the level info, the log has the lifecycle, and each request without what it is about", async () => {
  const lines = await linesAt("info");
  expect(requestsOf(lines)).toEqual([
    "POST /v1/tenants 201",
    "GET /v1/tenants/:tenant/calls 200",
    "GET /v1/tenants/:tenant/calls 404",
    "GET unknown 404",
  ]);
  const events = lines.map(({ msg }) => msg).filter((msg) => !/^request$|^authentication/.test(msg));
  expect(events).toEqual(["starting", "listening", "draining", "stopped"]);
  expect(lines.find(({ route }) => route === "/v1/tenants/:tenant/calls")).toEqual({
    level: 30,
    time: expect.any(Number),
    msg: "request",
    requestId: expect.stringMatching(/^request_/),
    method: "GET",
    route: "/v1/tenants/:tenant/calls",
    status: 200,
    ms: expect.any(Number),
    keyId: expect.stringMatching(/^key_/),
    tenant: "acme",
  });
  const denied = lines.filter(({ msg }) => msg === "authentication failed");
  expect(denied.length).toBeGreaterThanOrEqual(1);
  expect(denied.every(({ level, route, ip }) => level === 40 && route === "/v1/me" && ip === "127.0.0.1")).toBe(true);
});

test("at the level debug, it has the requests of probes too, and at warn only failed authentications", async () => {
  expect(requestsOf(await linesAt("debug"))).toContain("GET /healthz 200");
  const warnings = await linesAt("warn");
  expect(new Set(warnings.map(({ msg }) => msg))).toEqual(new Set(["authentication failed"]));
});

test("failed authentications are at most 20 lines in ten seconds, and the next one says how many were left out", () => {
  const lines: Line[] = [];
  const log = pino({ level: "warn", base: null }, { write: (text) => void lines.push(JSON.parse(text)) });
  let now = 0;
  const requests = new RequestLog(log, () => now);
  const deny = (): void =>
    requests.ended({
      requestId: "request_1",
      method: "GET",
      route: "/v1/me",
      status: 401,
      ms: 1,
      keyId: undefined,
      tenant: undefined,
      ip: "192.0.2.1",
    });
  for (let count = 0; count < 50; count += 1) deny();
  expect(lines.length).toBe(20);
  now = 10_000;
  deny();
  deny();
  expect(lines.slice(20).map(({ omitted }) => omitted)).toEqual([30, undefined]);
});
