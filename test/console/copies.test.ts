// The commands that the console shows: "Copy as", and those of empty pages, which are run.
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { COMMAND_SPECS } from "../../src/cli/options/option-table.ts";
import { readArguments } from "../../src/cli/options/read-arguments.ts";
import { toCopies } from "../../src/console/state/copies.ts";
import { firstCommand, firstKeyCommand, firstTenantCommand, toCurl } from "../../src/console/state/first-commands.ts";
import { createServer } from "../../src/server/index.ts";

const CALL = {
  id: "call_1",
  tool: "greet",
  output: { text: "it's" },
  error: null,
  omitted: [],
  usage: null,
  endedAt: 1,
};

/** Splits a command as a shell does whose texts are in single quotes. */
const toArgs = (command: string): readonly string[] =>
  (command.match(/(?:'[^']*'|\\'|[^\s'\\]+)+/g) ?? []).map((word) =>
    word.replaceAll(/'([^']*)'|\\(')/g, (_all, quoted?: string, escaped?: string) => quoted ?? escaped ?? ""),
  );

test.for([
  [{ version: 7, alias: "beta" }, { version: "7" }, { version: 7 }],
  [{ version: null, alias: "beta" }, { alias: "beta" }, { alias: "beta" }],
  [{ version: 1, alias: "live" }, { version: "1" }, { version: 1 }],
] as const)("a call of %j names the same version or alias in each command", ([choice, flags, fields]) => {
  const input = { name: 'it\'s "me"' };
  const copies = new Map(toCopies("https://tools.example.com", "acme", { ...CALL, ...choice }, input));
  const [npx, glovebox, command, ...args] = toArgs(copies.get("Command line") ?? "");
  expect([npx, glovebox, command]).toEqual(["npx", "glovebox", "call"]);
  expect(Object.keys(COMMAND_SPECS.call.options)).toEqual(expect.arrayContaining(Object.keys(flags)));
  const { values, positionals } = readArguments("call", args);
  expect(positionals).toEqual(["greet"]);
  expect(values).toMatchObject({ tenant: "acme", input: JSON.stringify(input), ...flags });
  expect("version" in values && "alias" in values).toBe(false);
  const curl = toArgs((copies.get("curl") ?? "").replaceAll("\\\n", " "));
  expect(JSON.parse(curl.at(-1) ?? "")).toEqual({ input, ...fields });
});

test("a large input is the input of a command and no argument, and reaches it unchanged", () => {
  const given = { text: "it's ".repeat(40_000) };
  const copies = new Map(toCopies("https://tools.example.com", "acme", { ...CALL, version: 1, alias: "live" }, given));
  for (const name of ["curl", "Command line"]) {
    const text = copies.get(name) ?? "";
    const [command = "", ...lines] = text.split("<<'END'\n");
    expect(toArgs(command).every((word) => word.length < 1_000)).toBe(true);
    // The shell itself: `cat` in place of the command.
    const output = execFileSync("sh", ["-s"], { input: `cat <<'END'\n${lines.join("")}`, maxBuffer: 1e7 }).toString();
    expect(JSON.parse(output)).toEqual(name === "curl" ? { input: given, version: 1 } : given);
  }
  expect(toArgs((copies.get("Command line") ?? "").split("<<")[0] ?? "").slice(-2)).toEqual([
    "--input-file",
    "/dev/stdin",
  ]);
});

test("the test of a call compares values with the key __proto__", () => {
  const value = JSON.parse('{ "__proto__": { "a": 1 } }');
  const call = { ...CALL, version: 1, alias: "live", output: value };
  const text = new Map(toCopies("https://tools.example.com", "acme", call, value)).get("Test") ?? "";
  const literal = /output\((.*)\)\)\.toEqual\((.*)\);/.exec(text)?.slice(1) ?? [];
  expect(literal).toHaveLength(2);
  for (const one of literal) expect(Object.keys(new Function(`return ${one}`)())).toEqual(["__proto__"]);
});

test.for([
  [{}, true],
  [{ output: null }, true],
  [{ output: null, usage: { outputBytes: 4 } }, true],
  [{ output: null, usage: { outputBytes: 7 } }, false],
  [{ output: null, omitted: ["output"] }, false],
  [{ output: null, error: { code: "TOOL_FAILED" }, usage: { outputBytes: 0 } }, true],
  [{ output: null, endedAt: null }, false],
] as const)("a test is offered for a call whose result is known: %j", ([changes, isKnown]) => {
  const call = {
    ...CALL,
    version: 1,
    alias: "live",
    ...changes,
    omitted: [...("omitted" in changes ? changes.omitted : [])],
  };
  const names = toCopies("https://tools.example.com", "acme", call, {}).map(([name]) => name);
  expect(names.includes("Test")).toBe(isKnown);
});

test("the commands of empty pages create the first entry", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "glovebox-first-"));
  try {
    await using server = await createServer({ port: 0, dataDir, logLevel: "silent" });
    /** Sends what curl would: the machine may not have it. */
    const run = async (command: string): Promise<unknown> => {
      const line = command.replaceAll("\\\n", " ").replaceAll("NAME", "greet");
      const words = toArgs(
        line.replace('"authorization: Bearer $GLOVEBOX_API_KEY"', `'authorization: Bearer ${server.adminKey}'`),
      );
      const [curl, x, method = "", url = "", h1, authorization = "", h2, type = "", d, body = "", ...more] = words;
      expect([curl, x, h1, h2, d, more]).toEqual(["curl", "-X", "-H", "-H", "-d", []]);
      const headers = [authorization, type].map((header) => header.split(": ") as [string, string]);
      const response = await fetch(url, { method, headers, body });
      expect([200, 201]).toContain(response.status);
      return await response.json();
    };
    expect(await run(firstTenantCommand(server.url))).toMatchObject({ id: "acme" });
    const tool = { name: "greet", source: "export default () => 1" };
    await run(toCurl("POST", `${server.url}/v1/tenants/acme/tools`, tool));
    for (const page of ["schedules", "triggers", "webhooks"] as const)
      expect(await run(firstCommand(server.url, "acme", page))).toMatchObject({ id: expect.any(String) });
    expect(await run(firstCommand(server.url, "acme", "values"))).toMatchObject({ version: expect.any(String) });
    for (const path of ["/v1/keys", "/v1/tenants/acme/keys"])
      expect(await run(firstKeyCommand(server.url, path))).toMatchObject({ key: expect.stringMatching(/^gbx_/) });
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});
