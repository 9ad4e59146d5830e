// The upstream servers of `glovebox mcp`: quoting, variables, headers, and what is wrong.
import fc from "fast-check";
import { expect, test } from "vitest";
import { readUpstreamServers, splitCommand } from "../../src/cli/shared/upstream-servers.ts";

const read = (values: Record<string, readonly string[]>, env: NodeJS.ProcessEnv = {}, tenantId?: string) =>
  readUpstreamServers({ values }, env, tenantId);

test.for<readonly [string, readonly string[]]>([
  ["npx -y server  /tmp", ["npx", "-y", "server", "/tmp"]],
  [`node "a b.js" 'c "d"' e\\ f ""`, ["node", "a b.js", 'c "d"', "e f", ""]],
  [`a"b"'c'd`, ["abcd"]],
  [`"a\\"b\\n" '\\'`, ['a"b\\n', "\\"]],
  ["$HOME `id` $(id) ; rm * | x > y", ["$HOME", "`id`", "$(id)", ";", "rm", "*", "|", "x", ">", "y"]],
  ["", []],
])("splits %j", ([text, words]) => {
  expect(splitCommand(text)).toEqual(words);
});

test("any words survive their quotes", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (words) => {
      const text = words.map((word) => `'${word.replaceAll("'", `'"'"'`)}'`).join(" ");
      expect(splitCommand(text)).toEqual(words);
    }),
  );
});

test("reads commands with variables, and URLs with headers", () => {
  const env = { TOKEN: "t", KEY: "k" };
  const values = {
    mcp: ["files=npx -y server '/a b'", "web=https://mcp.test/mcp?a=b=c"],
    "mcp-env": ["files=KEY"],
    "mcp-header": ["web=X-Api-Key:KEY"],
    "mcp-token": ["web=TOKEN"],
  };
  expect(read(values, env, "acme")).toMatchObject({
    files: { command: "npx", args: ["-y", "server", "/a b"], env: { KEY: "k" }, tenants: ["acme"] },
    web: { url: "https://mcp.test/mcp?a=b=c", headers: { "X-Api-Key": "k", Authorization: "Bearer t" } },
  });
  expect(read({ mcp: ["a=b"] }).a).not.toHaveProperty("tenants");
});

test.for<readonly [Record<string, readonly string[]>, RegExp]>([
  [{ mcp: ["nothing"] }, /expected NAME=COMMAND_OR_URL/],
  [{ mcp: ["=x"] }, /expected NAME=/],
  [{ mcp: ["a b=x"] }, /expected NAME=/],
  [{ mcp: ["a="] }, /expected NAME=/],
  [{ mcp: ["a=x", "a=y"] }, /at most once/],
  [{ mcp: ['a="x'] }, /closing "/],
  [{ mcp: ['a=""'] }, /command or a URL/],
  [{ mcp: ["a=x"], "mcp-env": ["b=KEY"] }, /there is no server "b"/],
  [{ mcp: ["a=x"], "mcp-env": ["a=MISSING"] }, /environment variable that is set, got "MISSING"/],
  [{ mcp: ["a=x"], "mcp-token": ["a=KEY"] }, /is a command; expected --mcp-env/],
  [{ mcp: ["a=http://x.test"], "mcp-env": ["a=KEY"] }, /has a URL; expected --mcp-header/],
  [{ mcp: ["a=http://x.test"], "mcp-header": ["a=Bad Header:KEY"] }, /HEADER:VARIABLE/],
  [{ mcp: ["a=http://x.test"], "mcp-header": ["a=X"] }, /environment variable/],
])("rejects %j", ([values, message]) => {
  expect(() => read(values, { KEY: "k" })).toThrow(message);
});
