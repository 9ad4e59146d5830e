// The client sends only what its caller means: a name never becomes the path of another resource, and a body loses nothing.
import { describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { failureOfAction } from "../support/strict-options.ts";

const sent: string[] = [];
const client = createClient({
  url: "http://127.0.0.1:7070/base/",
  key: "gb_key",
  fetch: async (url) => {
    sent.push(String(url));
    return Response.json({ items: [], next: null });
  },
});
const tenant = client.tenant("acme");
/** Passes a value of a wrong type. */
// biome-ignore lint/suspicious/noExplicitAny: the client gets values of wrong types
const wrong = (value: unknown): any => value;

/** Expects a TypeError with this message, and no request. */
async function expectRejected(action: () => unknown, message: string | RegExp): Promise<void> {
  const before = sent.length;
  const thrown = await failureOfAction(action);
  expect(thrown).toBeInstanceOf(TypeError);
  expect(thrown).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(message) });
  expect(sent).toHaveLength(before);
}

test.for(["http://user:hunter2@127.0.0.1:7070", "https://token@example.com"])(
  "a URL with a user name or password is rejected, and not repeated in the message: %s",
  async (url) => {
    const message = /^options\.url: Expected a URL without a user name and password$/;
    await expectRejected(() => createClient({ url, key: "gb_key" }), message);
  },
);

describe("a segment of a path", () => {
  test.for<readonly [string, (name: string) => unknown]>([
    ["client.tenant()", (name) => client.tenant(name)],
    ["client.drainExecutor()", (name) => client.drainExecutor(name)],
    ["deleteTool()", (name) => tenant.deleteTool(name)],
    ["deleteSecret()", (name) => tenant.deleteSecret(name)],
    ["revokeKey()", (name) => tenant.revokeKey(name)],
    ["deleteValue()", (name) => tenant.deleteValue(name, "key")],
    ["rollback()", (name) => tenant.rollback(name, "live")],
    ["approve()", (version) => tenant.approve("add", wrong(version))],
    ["version()", (version) => tenant.version("add", wrong(version))],
    ["bundle()", (version) => tenant.bundle("add", wrong(version))],
    ["call()", (name) => tenant.call(name)],
    ["versions()", (name) => tenant.versions(name).next()],
  ])("the segment of %s is neither empty, a dot segment nor another type", async ([, action]) => {
    for (const name of ["", ".", "..", undefined, null, {}, Promise.resolve("add"), -1, 1.5, true])
      await expectRejected(() => action(wrong(name)), /for the path|cannot be part of a path/);
  });

  test("the keys . and .. of values are in the query", async () => {
    await tenant.deleteValue("add", "..");
    await tenant.setValue("add", ".", 1);
    await tenant.deleteValue("add", "...");
    const base = "http://127.0.0.1:7070/base/v1/tenants/acme/kv/add/values";
    expect(sent.slice(-3)).toEqual([`${base}/-?key=..`, `${base}/-?key=.`, `${base}/...`]);
  });

  test("is encoded", async () => {
    await tenant.deleteTool("../../beta?x#y");
    expect(sent.at(-1)).toBe("http://127.0.0.1:7070/base/v1/tenants/acme/tools/..%2F..%2Fbeta%3Fx%23y");
  });
});

describe("client.request()", () => {
  test.for(["v1/me", "@evil.example/v1", "", "/v1/../admin", "/v1/%2e%2E/admin", "/v1/.", "/v1/tenants/..?x=/", 5])(
    "rejects the path %j",
    (path) => expectRejected(() => client.request("GET", wrong(path)), /^path: Expected a path that begins with/),
  );

  test("sends other paths as they are", async () => {
    await client.request("GET", "/v1/tenants/..acme/a.b?x=/../y");
    expect(sent.at(-1)).toBe("http://127.0.0.1:7070/base/v1/tenants/..acme/a.b?x=/../y");
  });
});

describe("a body", () => {
  test.for<readonly [string, unknown, RegExp]>([
    ["a promise", Promise.resolve({ input: 1 }), /^body: Expected a plain object, got a Promise/],
    ["a list", [], /^body: .*an array/],
    ["text", "input", /^body: .*a string/],
    ["null", null, /^body: .*null/],
    ["a promise inside", { input: { a: Promise.resolve(1) } }, /^a: Expected a JSON value, got a Promise/],
    ["a Map inside", { input: [new Map()] }, /got a Map/],
    ["bytes inside", { input: new Uint8Array(3) }, /^input: .*got an instance of Uint8Array/],
    ["a function inside", { input: () => 1 }, /^input: .*got a function/],
    ["a bigint inside", { input: 1n }, /^input: .*got a bigint/],
    ["NaN inside", { input: { n: Number.NaN } }, /^n: .*got NaN/],
  ])("is not %s", ([, body, message]) => expectRejected(() => tenant.call("add", wrong(body)), message));

  test("may hold dates and undefined fields", async () => {
    await tenant.call("add", { input: { at: new Date(0), none: undefined } });
    expect(sent.at(-1)).toContain("/tools/add/calls");
  });
});

describe("a header that HTTP does not allow", () => {
  test.for([
    ["the key", (value: string) => createClient({ url: "http://127.0.0.1:9", key: value }).whoAmI(), "options.key"],
    ["ifMatch", (value: string) => tenant.update({}, { ifMatch: value }), "options: Expected a header if-match"],
    [
      "the idempotency key",
      (value: string) => tenant.call("add", {}, { idempotencyKey: value }),
      "options: Expected a header idempotency-key",
    ],
  ] as const)("is rejected as %s without a request, and is not shown", async ([, send, message]) => {
    for (const value of ["gbx_secret\nX: y", "gbx_secret…"]) {
      await expectRejected(() => send(value), message);
      const thrown = await failureOfAction(() => send(value));
      expect(`${thrown} ${(thrown as Error).cause}`).not.toContain("gbx_secret");
    }
  });
});
