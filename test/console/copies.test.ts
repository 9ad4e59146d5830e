// The texts of "Copy as" in the console.
import { expect, test } from "vitest";
import { COMMAND_SPECS } from "../../src/cli/options/option-table.ts";
import { readArguments } from "../../src/cli/options/read-arguments.ts";
import { toCopies } from "../../src/console/state/copies.ts";

const CALL = { id: "call_1", tool: "greet", output: { text: "it's" }, error: null };

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
