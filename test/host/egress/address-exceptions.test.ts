// Non-public addresses that are allowed as exceptions: only for requests of the rule that lists them.
import { describe, expect, test } from "vitest";
import { readEgress } from "../../../src/cli/commands/egress.ts";
import type { EgressAllow, EgressOptions } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import { parseConfig } from "../../../src/host/config/options.ts";
import { rejectionOf, serve, TestCall, type TestServer } from "../../support/egress.ts";
import { FAILING_CALLBACKS, inOtherRealm } from "../../support/failing-callbacks.ts";
import { codeOf, errorOf, makeGlovebox } from "../../support/host-zone.ts";

const denied = (rule: string): object => ({
  code: "CAPABILITY_DENIED",
  message: expect.stringMatching(new RegExp(`^Denied by the rule "${rule}" of the egress policy: `)),
});

/** All names are on this machine, as a name server of an attacker may say. */
const callTo = (allow: readonly EgressAllow[], server: TestServer, more: Partial<EgressOptions> = {}): TestCall =>
  new TestCall({ allow, ports: [server.port], resolve: () => ["127.0.0.1"], ...more });
const here = ["127.0.0.1"];

describe("the addresses of an allow rule", () => {
  test.for<[string, readonly EgressAllow[], string]>([
    ["another rule's host", [{ to: "inside.test", addresses: here }, "outside.test"], "outside.test"],
    ["a host below the rule's", [{ to: "inside.test", addresses: here }, "*.inside.test"], "a.inside.test"],
    ["the host above a wildcard", [{ to: "*.inside.test", addresses: here }, "inside.test"], "inside.test"],
    ["the address itself", [{ to: "inside.test", addresses: here }, "127.0.0.1"], "127.0.0.1"],
    ["another scheme", [{ to: "https://inside.test", addresses: here }, "http://inside.test:80"], "inside.test:80"],
  ])("hold for no other request: %s", async ([, allow, host]) => {
    const server = await serve((_request, response) => response.end("inside"));
    const port = host.includes(":") ? "" : `:${server.port}`;
    expect(await rejectionOf(callTo(allow, server).request(`http://${host}${port}/`))).toEqual(denied("address"));
    expect(server.requests).toEqual([]);
  });

  test("hold for the requests of that rule", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    for (const [to, host] of [
      ["inside.test", "inside.test"],
      ["*.inside.test", "a.inside.test"],
      ["127.0.0.1", "127.0.0.1"],
    ] as const) {
      const call = callTo([{ to, addresses: ["127.0.0.0/8"] }, "outside.test"], server);
      expect((await call.fetch(`http://${host}:${server.port}/`)).text).toBe("inside");
    }
  });

  test("hold for the rule's methods only, also on an open connection", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    const allow = [
      { to: "inside.test", methods: ["GET"], addresses: here },
      { to: "inside.test", methods: ["POST"] },
    ];
    const call = callTo(allow, server);
    const url = `http://inside.test:${server.port}/`;
    expect((await call.fetch(url)).text).toBe("inside");
    expect(await rejectionOf(call.request(url, { method: "POST" }))).toEqual(denied("address"));
    expect((await call.fetch(url)).text).toBe("inside");
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "GET"]);
  });

  test("are those of the rule that a redirect's target matches", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/there") return response.end("inside");
      const host = request.url === "/in" ? "also-inside.test" : "outside.test";
      return response.writeHead(302, { location: `http://${host}:${server.port}/there` }).end();
    });
    const inside = ["inside.test", "also-inside.test"].map((to) => ({ to, addresses: here }));
    const call = callTo([...inside, "outside.test"], server);
    expect((await call.fetch(`http://inside.test:${server.port}/in`)).text).toBe("inside");
    expect(await rejectionOf(call.request(`http://inside.test:${server.port}/out`))).toEqual(denied("address"));
    expect(server.requests.map(({ url }) => url)).toEqual(["/in", "/there", "/out"]);
  });

  test("the addresses of an allow rule of one tenant hold for no other", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    await using glovebox = await makeGlovebox({
      tenancy: "multi",
      limits: { timeoutMs: 120_000 },
      egress: { allow: [server.origin] },
      tenants: { acme: { egress: { allow: [{ to: server.origin, addresses: here }] } } },
    });
    const source = "export default async (url) => (await fetch(url)).status;";
    await glovebox.addTool(
      { name: "get", source, overrides: { inputSchema: { type: "string" }, capabilities: { fetch: true } } },
      { scope: "global", grant: ["fetch"] },
    );
    const call = { id: "c", toolName: "get", arguments: server.origin as never };
    expect(codeOf(await glovebox.execute(call, { tenantId: "acme" }))).toBe("ok");
    expect(errorOf(await glovebox.execute(call, { tenantId: "other" }))).toMatchObject(denied("address"));
  });
});

describe("a resolver of the host", () => {
  const WRONG: readonly (readonly [string, () => unknown])[] = [
    ["answers nothing", () => undefined],
    ["answers with no address", () => []],
    ["answers with a text", () => "127.0.0.1"],
    ["answers with numbers", () => [2_130_706_433]],
    ["answers with a symbol", () => [Symbol("address")]],
    ["answers with objects, as dns.lookup() does", () => [{ address: "127.0.0.1", family: 4 }]],
  ];
  test.for([...FAILING_CALLBACKS, ...WRONG])("a resolver that %s gives no connection", async ([, resolve]) => {
    const server = await serve((_request, response) => response.end("inside"));
    const allow = [{ to: "inside.test", addresses: here }];
    const call = callTo(allow, server, { resolve: resolve as () => string[] });
    expect(await rejectionOf(call.request(`http://inside.test:${server.port}/`))).toEqual({
      code: "TOOL_FAILED",
      message: expect.stringMatching(/^The exchange failed: name (not found|lookup failed|lookup timed out)$/),
    });
    expect(server.requests).toEqual([]);
  });

  test("a resolver of another realm is called with the name only", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    const resolve = inOtherRealm("async (...given) => given.length === 1 ? ['127.0.0.1'] : []") as () => string[];
    const call = callTo([{ to: "inside.test", addresses: here }], server, { resolve });
    expect((await call.fetch(`http://inside.test:${server.port}/`)).text).toBe("inside");
  });
});

describe("options of the egress", () => {
  const egress = (options: unknown): GloveboxOptions => ({ egress: options }) as GloveboxOptions;
  test.for<[string, GloveboxOptions, string]>([
    [
      "allowAddresses",
      egress({ allow: [], allowAddresses: ["10.0.0.0/8"] }),
      "options.egress.allowAddresses: Removed, because it allowed these addresses for every rule. Set addresses in the rule that needs them: allow: [{ to",
    ],
    [
      "a tenant's allowAddresses",
      { tenants: { acme: egress({ allow: [], allowAddresses: [] }) } } as GloveboxOptions,
      "options.tenants.acme.egress.allowAddresses: Removed, because",
    ],
    [
      "an unknown key of a rule",
      egress({ allow: [{ to: "a.test", address: ["10.0.0.1"] }] }),
      'options.egress.allow.0.address: Unknown option. Did you mean "addresses"?',
    ],
    [
      "an invalid address",
      egress({ allow: ["b.test", { to: "a.test", addresses: ["10.0.0.1", "ten"] }] }),
      'options.egress.allow.1.addresses.1: Expected an address or a CIDR range, got "ten"',
    ],
    [
      "addresses that are not a list",
      egress({ allow: [{ to: "a.test", addresses: "10.0.0.1" }] }),
      "options.egress.allow.0.addresses: Expected an array, got a string",
    ],
    [
      "ports for a rule with a port",
      egress({ allow: [{ to: "a.test:8080", ports: [80] }] }),
      "options.egress.allow.0.ports: Expected no ports for a rule that contains its port, as host:port and origins do",
    ],
    ["a promise", egress(Promise.resolve({ allow: [] })), "options.egress: Expected a plain object, got a Promise"],
    [
      "a rule that is a Map",
      egress({ allow: [new Map([["to", "a.test"]])] }),
      "options.egress.allow.0: Expected a string or a plain object, got a Map",
    ],
    ["an unknown key", egress({ allow: [], hosts: [] }), "options.egress.hosts: Unknown option."],
    [
      "an unknown key of a secret",
      { secrets: { KEY: { value: "12345678", host: [] } } } as never,
      'options.secrets.KEY.host: Unknown option. Did you mean "hosts"?',
    ],
    ["secrets that are a Map", { secrets: new Map() } as never, "options.secrets: "],
    ["secrets that are a promise", { secrets: Promise.resolve({}) } as never, "options.secrets: "],
  ])("are rejected with the reason: %s", ([, options, message]) => {
    expect(() => parseConfig(options)).toThrow(message);
  });
});

describe("--allow-fetch", () => {
  const allowOf = (...hosts: string[]): readonly EgressAllow[] =>
    readEgress({ "allow-fetch": hosts }, {}).host.egress?.allow ?? [];
  const LOOPBACK = ["127.0.0.0/8", "::1"];

  test.for<[string, EgressAllow]>([
    ["api.example.com", "api.example.com"],
    ["*.localhost", "*.localhost"],
    ["localhost", { to: "localhost", addresses: LOOPBACK }],
    ["LOCALHOST:8080", { to: "LOCALHOST:8080", addresses: LOOPBACK }],
    ["http://localhost:8080", { to: "http://localhost:8080", addresses: LOOPBACK }],
    ["10.0.0.5:81", { to: "10.0.0.5:81", addresses: ["10.0.0.5"] }],
    ["http://[::1]:81", { to: "http://[::1]:81", addresses: ["::1"] }],
    ["0x7f.1", { to: "0x7f.1", addresses: ["127.0.0.1"] }],
  ])("%s opens %j", ([host, rule]) => {
    expect(allowOf(host)).toEqual([rule]);
  });

  test("localhost opens localhost, and no other name that resolves to this machine", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    const call = callTo(allowOf("localhost", "rebind.test", "127.0.0.2"), server);
    expect((await call.fetch(`http://localhost:${server.port}/`)).text).toBe("inside");
    for (const host of ["rebind.test", "a.localhost", "127.0.0.1"]) {
      expect((await rejectionOf(call.request(`http://${host}:${server.port}/`))).code).toBe("CAPABILITY_DENIED");
    }
    expect(server.requests).toHaveLength(1);
  });
});
