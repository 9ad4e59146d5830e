// Large bodies of requests: they are parsed and serialized over several turns of the event loop, and mean the same as small ones.
import { afterAll, describe, expect, test } from "vitest";
import { useServer } from "./support/server.ts";
import { TestStores } from "./support/stores.ts";

interface Stored {
  readonly id: string;
  readonly state: string;
  readonly input: { readonly [key: string]: unknown };
  readonly output: unknown;
}
interface Problem {
  readonly error: { readonly code: string; readonly message: string };
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** More than 1 MB, with all kinds of values. */
const LARGE = {
  text: 'é\u2028"\\'.repeat(10),
  ...Object.fromEntries(Array.from({ length: 40_000 }, (_, at) => [`key${at}`, [at / 3, null, "x", { at }]])),
};

describe("a large input", () => {
  const under = useServer(stores, "sqlite", ["acme"]);
  const { api } = under;
  const path = "/v1/tenants/acme/tools/count/calls";
  const expected = { keys: Object.keys(LARGE).length, text: LARGE.text, last: 39_999 };
  const deploy = () =>
    api("POST", "/v1/tenants/acme/tools", {
      name: "count",
      source:
        "export default (input) => ({ keys: Object.keys(input).length, text: input.text, last: input.key39999[3].at });",
    });

  test("arrives at the tool of a call, of one that is queued, and of each in a batch", async () => {
    expect((await deploy()).status).toBe(201);
    const called = await api<Stored>("POST", path, { input: LARGE });
    expect([called.status, called.body.output]).toEqual([200, expected]);
    expect(called.body.input).toEqual(LARGE);
    const queued = await api<Stored>("POST", path, { input: LARGE }, { prefer: "respond-async" });
    expect(queued.status).toBe(202);
    await expect
      .poll(async () => (await api<Stored>("GET", `/v1/tenants/acme/calls/${queued.body.id}`)).body)
      .toMatchObject({ state: "succeeded", output: expected });
    const calls = [
      { tool: "count", input: LARGE },
      { tool: "count", input: { text: "t", key39999: [0, 0, 0, { at: 5 }] } },
    ];
    const batch = await api<{ readonly items: readonly Stored[] }>("POST", "/v1/tenants/acme/calls", { calls });
    expect(batch.body.items.map(({ output }) => output)).toEqual([expected, { keys: 2, text: "t", last: 5 }]);
  });

  test("is the same request under one idempotency key, and another one with another value", async () => {
    await deploy();
    const headers = { "idempotency-key": "large" };
    const first = await api<Stored>("POST", path, { input: LARGE }, headers);
    const again = await api<Stored>("POST", path, { input: { ...LARGE } }, headers);
    expect([again.status, again.body.id]).toEqual([200, first.body.id]);
    expect((await api("POST", path, { input: { ...LARGE, text: "" } }, headers)).status).toBe(409);
  });

  test.for([
    ["text that is not JSON", `${JSON.stringify({ input: LARGE })}}`],
    ["a value that is nested too deep", `{"input":${"[".repeat(400_000)}${"]".repeat(400_000)}}`],
    ["a key that no tool can receive", JSON.stringify({ input: LARGE }).replace('"text"', '"__proto__"')],
  ] as const)("of %s is rejected with what is wrong", async ([, text]) => {
    await deploy();
    const response = await fetch(`${under.server.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${under.server.adminKey}`, "content-type": "application/json" },
      body: text,
    });
    const { error } = (await response.json()) as Problem;
    expect([response.status, error.code, error.message]).toEqual([
      400,
      "MALFORMED",
      expect.stringContaining("The body"),
    ]);
  });
});
