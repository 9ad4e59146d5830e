// Hooks with a capability stage run for each request that fetch sends, so also for the target of each redirect.
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { Hook } from "../../../src/host/observability/hooks/hook-events.ts";
import { onLoopback } from "../../support/egress.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const SECRET = "sk-live-4f9Aq-Z0142";
const SOURCE = `
  export const capabilities = { fetch: true, secrets: true };
  export default async ({ url, options }, ctx) => {
    const headers = { "x-key": await ctx.secrets.use("KEY") };
    try {
      const response = await fetch(url, { ...options, headers });
      return [response.status, await response.text()];
    } catch (error) { return [error.code ?? error.cause?.code, error.message]; }
  };`;

interface Input {
  readonly op: string;
  readonly id: number;
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: { readonly base64: string } | null;
  readonly redirect: string;
  readonly redirectedFrom?: string;
}
type Guard = (input: Input) => ReturnType<NonNullable<Hook["capability"]>>;

interface Site {
  readonly origin: string;
  readonly server: Server;
  /** Requested paths. */
  readonly paths: string[];
}

async function listen(listener: RequestListener): Promise<Site> {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? "");
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, paths };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { url, method, headers } = request;
  const seen = [method, url, headers["x-hook"] ?? "", headers["x-key"] ?? ""].join(" ");
  response.end(`${seen} ${await text(request)}`);
}

let server: Site;
let other: Site;
let glovebox: Glovebox;
let guard: Guard = () => undefined;
let asked: Input[] = [];
let statuses: unknown[] = [];

beforeAll(async () => {
  other = await listen((request, response) => void answer(request, response));
  // `/303`, `/307` … redirect to `/there`, `/away` to the other server, `/secret` to a URL with the secret's value in it.
  server = await listen((request, response) => {
    const { url = "" } = request;
    const status = /^\/(30\d)/.exec(url)?.[1];
    const location = url === "/away" ? `${other.origin}/away` : url === "/secret" ? `/there?key=${SECRET}` : "/there";
    const isRedirect = status !== undefined || url === "/away" || url === "/secret";
    if (isRedirect) response.writeHead(Number(status ?? 307), { location }).end();
    else void answer(request, response);
  });
  const hook: Hook = {
    name: "guard",
    failClosed: true,
    timeoutMs: 1_000,
    capability: (event) => {
      if (event.capability !== "fetch") return undefined;
      asked.push(event.input as Input);
      return guard(event.input as Input);
    },
    capabilityResult: ({ capability, output }) => {
      const isHead = typeof output === "object" && output !== null && "status" in output;
      if (capability === "fetch" && isHead) statuses.push(output.status);
    },
  };
  glovebox = await makeGlovebox({
    egress: { allow: onLoopback(server.origin, other.origin) },
    secrets: { KEY: { value: SECRET, hosts: [server.origin] } },
    hooks: [hook],
  });
  await glovebox.addTool({ name: "get", source: SOURCE }, { grant: ["fetch", "secrets"] });
});
afterAll(async () => {
  await glovebox.close();
  for (const site of [server, other]) {
    site.server.closeAllConnections();
    site.server.close();
  }
});
beforeEach(() => {
  guard = () => undefined;
  asked = [];
  statuses = [];
  for (const site of [server, other]) site.paths.length = 0;
});

function run(path: string, options: object = {}, signal?: AbortSignal): Promise<ToolResult> {
  return glovebox.execute({ id: "c1", toolName: "get", arguments: { url: server.origin + path, options } }, { signal });
}
const fetched = async (path: string, options?: object): Promise<unknown> => outputOf(await run(path, options));

const isHop = ({ redirectedFrom }: Input): boolean => redirectedFrom !== undefined;
/** A guard that lets the first request pass. */
const onRedirect =
  (judge: (input: Input) => unknown): Guard =>
  (input) =>
    isHop(input) ? (judge(input) as ReturnType<Guard>) : undefined;
const modifying = (modify: (input: Input) => unknown): Guard =>
  onRedirect((input) => ({ modify: { input: modify(input) } }));

describe("a hook's capability function", () => {
  test("is called for the target of a redirect as for the first request", async () => {
    const answered = await fetched("/307", { method: "POST", body: "text" });
    expect(answered).toEqual([200, expect.stringMatching(/^POST \/there .* text$/)]);
    const [first, second] = asked;
    expect(first).toMatchObject({ op: "request", method: "POST", url: `${server.origin}/307`, redirect: "follow" });
    expect(second).toEqual({ ...first, url: `${server.origin}/there`, redirectedFrom: `${server.origin}/307` });
    expect(asked).toHaveLength(2);
  });

  test("sees the method, headers and body that go along", async () => {
    const answered = await fetched("/303", { method: "POST", body: "text" });
    expect(answered).toEqual([200, expect.stringMatching(/^GET \/there /)]);
    expect(asked[1]).toMatchObject({ method: "GET", body: null });
    await fetched("/away");
    expect(asked[3]).toMatchObject({ url: `${other.origin}/away`, method: "GET" });
    expect(asked[3]?.headers.map(([name]) => name)).not.toContain("x-key");
    expect(other.paths).toEqual(["/away"]);
  });

  test("denies a redirect: nothing is sent to its target, and the tool gets the denial", async () => {
    const message = "Not to that host";
    guard = onRedirect(() => ({ reject: { code: "CAPABILITY_DENIED", message } }));
    expect(await fetched("/away")).toEqual(["CAPABILITY_DENIED", message]);
    expect(other.paths).toEqual([]);
  });

  test.for<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects", () => Promise.reject(new Error("broken"))],
    ["does not answer", () => new Promise(() => {})],
    ["answers with something else", () => "yes"],
  ])("a capability function that %s for a redirect denies it", async ([, fail]) => {
    guard = onRedirect(fail);
    expect(await fetched("/away")).toEqual(["INTERNAL", expect.any(String)]);
    expect(other.paths).toEqual([]);
  });

  test("modifies a redirect: the modified request is sent", async () => {
    guard = modifying((input) => ({ ...input, headers: [...input.headers, ["x-hook", "seen"]] }));
    expect(await fetched("/307")).toEqual([200, "GET /there seen [redacted:KEY] "]);
    guard = modifying((input) => ({ ...input, url: `${input.url}?to=here` }));
    expect(await fetched("/307")).toEqual([200, expect.stringMatching(/^GET \/there\?to=here /)]);
    guard = modifying((input) => ({ ...input, method: "POST", body: { base64: btoa("more") } }));
    expect(await fetched("/307")).toEqual([200, expect.stringMatching(/^POST \/there .* more$/)]);
    server.paths.length = 0;
    guard = modifying((input) => ({ ...input, url: input.url.replace("/there", "/302"), redirect: "error" }));
    expect([await fetched("/307"), server.paths]).toEqual([
      [null, "fetch failed"],
      ["/307", "/302"],
    ]);
  });

  test.for<[string, string, (input: Input) => unknown]>([
    ["nothing", "PARAM_INVALID", () => null],
    // No valid answer of a hook, whatever it comes to: the hook counts as broken.
    ["a promise", "INTERNAL", (input) => Promise.resolve(input)],
    ["a request with an unknown field", "PARAM_INVALID", (input) => ({ ...input, uri: input.url })],
    ["a request without a URL", "PARAM_INVALID", ({ url: _url, ...input }) => input],
    ["an invalid URL", "PARAM_INVALID", (input) => ({ ...input, url: "there" })],
    ["another exchange", "PARAM_INVALID", (input) => ({ ...input, id: input.id + 1 })],
    ["another operation", "PARAM_INVALID", (input) => ({ ...input, op: "read" })],
    ["a body in parts", "PARAM_INVALID", (input) => ({ ...input, method: "POST", body: { stream: true } })],
    ["a body that is not base64", "PARAM_INVALID", (input) => ({ ...input, method: "POST", body: { base64: "é" } })],
    ["a host that no rule allows", "CAPABILITY_DENIED", (input) => ({ ...input, url: "http://10.0.0.1/" })],
    ["a header that is the host's", "CAPABILITY_DENIED", (input) => ({ ...input, headers: [["host", "evil.test"]] })],
  ])("modifies a redirect to %s: the request ends with %s", async ([, code, modify]) => {
    guard = modifying(modify);
    expect(await fetched("/307")).toEqual([code, expect.any(String)]);
    expect(server.paths).toEqual(["/307"]);
  });

  test("does not see the value of a secret in a redirect, which is sent unchanged", async () => {
    for (const each of [() => undefined, modifying((input) => ({ ...input }))]) {
      guard = each;
      asked = [];
      server.paths.length = 0;
      await fetched("/secret");
      expect(asked[1]?.url).toBe(`${server.origin}/there?key=[redacted:KEY]`);
      expect(JSON.stringify(asked)).not.toContain(SECRET);
      expect(server.paths).toEqual(["/secret", `/there?key=${SECRET}`]);
    }
  });

  test("is called once if the tool follows redirects itself, and its result function once for a response", async () => {
    expect([await fetched("/307", { redirect: "manual" }), asked.length]).toEqual([[307, ""], 1]);
    await fetched("/307");
    expect(statuses).toEqual([307, 200]);
  });

  test("a capability function that answers after its call was cancelled sends nothing", async () => {
    const stop = new AbortController();
    guard = onRedirect(async () => stop.abort());
    expect(codeOf(await run("/away", {}, stop.signal))).toBe("CANCELLED");
    expect(other.paths).toEqual([]);
  });
});
