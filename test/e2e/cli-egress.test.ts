// --allow-fetch and --secret from the user's side: a command line and a real server.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { serve } from "../support/egress.ts";

/** A command line starts a process for each of its parts: on a busy machine that takes its time. */
const KEY = "sk-cli-0123456789";
const GET = `export const capabilities = { fetch: true, secrets: true };
  export default async ({ url }: { url: string }, ctx: any) => {
    const headers = { "x-key": await ctx.secrets.use("KEY").catch(() => "none") };
    const response = await fetch(url, { headers });
    return { status: response.status, body: await response.text() };
  };`;
let leave: () => Promise<void>;

async function run(...args: readonly string[]): Promise<{ readonly code: number | null; readonly said: string }> {
  const env = { API_KEY: KEY, EMPTY: "", HOME: "/home/of/a/user" };
  const { code, stdout, stderr } = await runInProcess(["run", "get.ts", "--timeout-ms", "60000", ...args], { env });
  return { code, said: stdout + stderr };
}

beforeAll(async () => {
  ({ leave } = await enterFolder({ "get.ts": GET }));
});
afterAll(() => leave());

describe("glovebox run", () => {
  test("sends what it may, with the secret that it has, and shows neither", async () => {
    const server = await serve((request, response) => response.end(`key ${request.headers["x-key"]}`));
    const input = ["--input", JSON.stringify({ url: server.origin })];
    const bare = await run(...input, "--allow-fetch", `127.0.0.1:${server.port}`);
    expect(bare).toEqual({ code: 0, said: '{"status":200,"body":"key none"}\n' });
    const keyed = await run(...input, "--allow-fetch", server.origin, "--secret", "KEY=API_KEY");
    expect(keyed).toEqual({ code: 0, said: '{"status":200,"body":"key [redacted:KEY]"}\n' });
    expect(server.requests.at(-1)?.headers["x-key"]).toBe(KEY);
    const elsewhere = await run(...input, "--allow-fetch", "api.example.com");
    expect([elsewhere.code, elsewhere.said]).toEqual([
      1,
      expect.stringContaining('CAPABILITY_DENIED: Denied by the rule "allow" of the egress policy'),
    ]);
    const none = await run(...input);
    expect([none.code, none.said]).toEqual([1, expect.stringContaining("fetch is not granted to this tool")]);
  });

  test.for<[string[], RegExp]>([
    [["--allow-fetch", "http://a/path"], /--allow-fetch: expected host/],
    [["--allow-fetch", "a.test", "--secret", "KEY"], /--secret: expected NAME=ENV, got "KEY"/],
    [["--allow-fetch", "a.test", "--secret", "KEY=NOWHERE"], /there is no environment variable NOWHERE/],
    [["--allow-fetch", "a.test", "--secret", "a b=API_KEY"], /expected a name of letters/],
    [["--secret", "KEY=API_KEY"], /--secret: expected --allow-fetch/],
    [["--allow-fetch", "a.test", "--secret", "KEY=EMPTY"], /--secret KEY: expected 8 to 8192 bytes .* EMPTY, got 0/],
    [
      ["--allow-fetch", "a.test", "--secret", "KEY=API_KEY", "--secret", "KEY=HOME"],
      /expected each name at most once, got "KEY"/,
    ],
  ])("says what is wrong with %j", async ([args, message]) => {
    const { code, said } = await run(...args);
    expect([code, said]).toEqual([2, expect.stringMatching(message)]);
    expect(said).not.toContain(KEY);
  });
});
