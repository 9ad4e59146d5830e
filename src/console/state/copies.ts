// The texts of "Copy as": commands that send a call again, and a test with its input and result.
import type { Call } from "glovebox/client";
import { quote, toArgument, toCurl } from "./first-commands.ts";
import { isOutputKept } from "./kept-output.ts";

/** A call, as far as the texts show it. */
export type CopiedCall = Pick<
  Call,
  "id" | "tool" | "version" | "alias" | "output" | "error" | "omitted" | "usage" | "endedAt"
>;

/** Returns an expression for a JSON value. In an object literal, the key `__proto__` would set the prototype. */
function toLiteral(value: unknown): string {
  const text = String(JSON.stringify(value));
  return text.includes('"__proto__"') ? `JSON.parse(${JSON.stringify(text)})` : text;
}

/**
 * Returns the name and the text of each form. The commands name the version that has run, so that they send the same call after the next
 * release as well; a call that no version has run yet names its alias. A test needs a result, so a call that has none yet, or whose output was not
 * kept, has no test.
 * @param server origin of the server
 */
export function toCopies(
  server: string,
  tenantId: string,
  call: CopiedCall,
  given: unknown,
): readonly (readonly [string, string])[] {
  const { tool, version, alias } = call;
  const error = call.error as { readonly code: string } | null;
  const input = JSON.stringify(given);
  const body = { input: given, ...(version === null ? { alias } : { version }) };
  const choice = version === null ? `--alias ${quote(alias)}` : `--version ${version}`;
  const url = `${server}/v1/tenants/${tenantId}/tools/${tool}/calls`;
  const expectation =
    error === null
      ? `expect(await tool.output(${toLiteral(given)})).toEqual(${toLiteral(call.output)});`
      : `expect(await tool.failure(${toLiteral(given)})).toMatch(/^${error.code}/);`;
  const commands = [
    ["curl", toCurl("POST", url, body)],
    [
      "Command line",
      `npx glovebox call ${tool} --tenant ${tenantId} ${choice} ${toArgument(input, "--input", "--input-file /dev/stdin")}`,
    ],
  ] as const;
  if (call.endedAt === null || !isOutputKept(call)) return commands;
  return [
    ...commands,
    [
      "Test",
      `import { openTool } from "glovebox/testing";\nimport { expect, test } from "vitest";\n\ntest("${tool}: ${call.id}", async () => {\n  await using tool = await openTool(import.meta.dirname);\n  ${expectation}\n});`,
    ],
  ];
}
