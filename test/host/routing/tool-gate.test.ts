// Enabled tools: configuration and feature flags. A disabled tool is not listed, does not run, and cannot be told from a missing one.
import { setTimeout as pause } from "node:timers/promises";
import { type Client, OpenFeature, TypedInMemoryProvider } from "@openfeature/server-sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import type { FlagFunction, Flags } from "../../../src/host/routing/tool-gate.ts";
import { ToolRouter, type ToolRouterOptions } from "../../../src/host/routing/tool-router.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { CALLBACK_ERROR_MESSAGE, FAILING_CALLBACKS, toThenable } from "../../support/failing-callbacks.ts";
import { codeOf, errorOf } from "../../support/host-zone.ts";

interface Setup {
  readonly router: ToolRouter;
  readonly told: ToolError[];
}
function setUp(options: ToolRouterOptions): Setup {
  const told: ToolError[] = [];
  const router = new ToolRouter({ ...options, onInternalError: (error) => told.push(error) });
  router.register("add", {}, () => 3, { scope: "global" });
  router.register("sub", {}, () => 1, { scope: "global" });
  return { router, told };
}

interface Seen {
  readonly ran: readonly string[];
  readonly listed: readonly string[];
  readonly surely: readonly string[];
}
/** Returns the enabled tools according to each public method. */
async function seenOf(router: ToolRouter, context: CallContext & { tenantId?: string } = {}): Promise<Seen> {
  const whose = context.tenantId === undefined ? {} : { tenantId: context.tenantId };
  const ran: string[] = [];
  for (const toolName of ["add", "sub"]) {
    const result = await router.execute({ id: "c1", toolName }, context);
    if (result.success) ran.push(toolName);
    else expect(result.error.code).toBe("TOOL_UNAVAILABLE");
  }
  const listed = (await router.listTools(whose)).map(({ name }) => name);
  const surely = router.getRegisteredTools(whose).map(({ name }) => name);
  expect(["add", "sub"].filter((name) => router.hasTool(name, whose))).toEqual(surely);
  return { ran, listed, surely };
}
const ALL: Seen = { ran: ["add", "sub"], listed: ["add", "sub"], surely: ["add", "sub"] };
const NONE: Seen = { ran: [], listed: [], surely: [] };
const only = (...names: string[]): Seen => ({ ran: names, listed: names, surely: names });

const says =
  (answers: Readonly<Record<string, boolean | undefined>>): FlagFunction =>
  (flag) =>
    answers[flag];

describe("ToolRouter with enabled and disabled tools", () => {
  test.for<[string, ToolRouterOptions, Seen]>([
    ["nothing stated", {}, ALL],
    ["enabled", { enabled: true }, ALL],
    ["not enabled", { enabled: false }, NONE],
    ["flags that say nothing", { flags: () => undefined }, NONE],
    ["flags that say nothing, enabled", { flags: () => undefined, enabled: true }, ALL],
    ["all on by flag", { flags: says({ "tools.enabled": true }) }, ALL],
    ["all on by flag, not enabled", { flags: says({ "tools.enabled": true }), enabled: false }, ALL],
    ["all off by flag, enabled", { flags: says({ "tools.enabled": false }), enabled: true }, NONE],
    ["one on by flag, not enabled", { flags: says({ "tools.add": true }), enabled: false }, only("add")],
    ["one off by flag, enabled", { flags: says({ "tools.add": false }), enabled: true }, only("sub")],
    ["one off by flag, all on by flag", { flags: says({ "tools.enabled": true, "tools.add": false }) }, only("sub")],
    ["all off by flag, one on: off is off", { flags: says({ "tools.enabled": false, "tools.add": true }) }, NONE],
    ["by name and not by flag", { flags: (_, { toolName }) => toolName === "sub" }, only("sub")],
  ])("%s", async ([, options, expected]) => {
    expect(await seenOf(setUp(options).router)).toEqual(expected);
  });

  test("evaluates a flag for each tenant and call", async () => {
    let isOn = true;
    const { router } = setUp({ tenancy: "multi", flags: (_, { tenantId }) => isOn && tenantId === "acme" });
    expect([await seenOf(router, { tenantId: "acme" }), await seenOf(router, { tenantId: "other" })]).toEqual([
      ALL,
      NONE,
    ]);
    isOn = false;
    expect(await seenOf(router, { tenantId: "acme" })).toEqual(NONE);
  });

  test("a disabled tool cannot be told from a missing one, and invalid names evaluate no flag", async () => {
    const asked: string[] = [];
    const { router } = setUp({
      flags: (flag) => {
        asked.push(flag);
        return flag === "tools.sub" ? true : undefined;
      },
    });
    const [off, absent] = [
      errorOf(await router.execute({ id: "c1", toolName: "add" })),
      errorOf(await router.execute({ id: "c1", toolName: "odd" })),
    ];
    expect(JSON.stringify(off)).toBe(JSON.stringify(absent).replaceAll("odd", "add"));
    expect(JSON.stringify(off)).not.toContain("sub");
    expect(codeOf(await router.execute({ id: "c1", toolName: "no name/" }))).toBe("TOOL_UNAVAILABLE");
    expect(new Set(asked)).toEqual(new Set(["tools.enabled", "tools.add", "tools.odd"]));
    const disabled = errorOf(await setUp({ enabled: false }).router.execute({ id: "c1", toolName: "add" }));
    expect(disabled).toEqual(off);
  });

  test("evaluates flags for nested calls too", async () => {
    const { router } = setUp({ flags: says({ "tools.both": true }) });
    router.register("both", {}, async () => codeOf(await router.execute({ id: "c2", toolName: "add" })));
    const result = await router.execute({ id: "c1", toolName: "both" });
    expect(result.success && result.output).toBe("TOOL_UNAVAILABLE");
  });

  const BAD: readonly (readonly [string, Flags, string])[] = [
    [
      "throws",
      () => {
        throw new Error("flag server: token 123");
      },
      "token 123",
    ],
    ["rejects", () => Promise.reject(new Error("unreachable")), "unreachable"],
    ["answers with text", () => "true" as never, "string"],
    ["answers with text later", () => Promise.resolve("true" as never), "string"],
    ["answers with null", () => null as never, "object"],
    ["never answers", () => new Promise(() => {}), "No answer within 60 ms"],
    ["is a client that rejects", { getBooleanDetails: () => Promise.reject(new Error("unreachable")) }, "unreachable"],
    ...FAILING_CALLBACKS.map(([name, flag]): (typeof BAD)[number] => [name, flag as Flags, CALLBACK_ERROR_MESSAGE]),
    ...FAILING_CALLBACKS.map(([name, getBooleanDetails]): (typeof BAD)[number] => [
      `is a client that ${name}`,
      { getBooleanDetails } as Flags,
      CALLBACK_ERROR_MESSAGE,
    ]),
    ["answers with a thenable of text", () => toThenable((resolve) => resolve("true")) as never, "string"],
    ["answers with a function", () => (() => true) as never, "function"],
    ["is a client without a value", { getBooleanDetails: async () => ({}) as never }, "undefined"],
    ["is a client whose value is text", { getBooleanDetails: async () => ({ value: "true" }) as never }, "string"],
    ["is a client whose value is null", { getBooleanDetails: async () => ({ value: null }) as never }, "null"],
    ["is a client that answers with nothing", { getBooleanDetails: async () => undefined as never }, "undefined"],
  ];
  test.for(BAD)(
    "a flag that %s disables the tool despite the configuration, and is reported to the operator",
    async ([, flags, why]) => {
      const { router, told } = setUp({ flags, enabled: true });
      const result = await router.execute({ id: "c1", toolName: "add" }, {}, 60);
      expect(errorOf(result).code).toBe("TOOL_UNAVAILABLE");
      expect(JSON.stringify(result)).not.toContain(why);
      expect(told.map(({ message }) => message).join()).toMatch(/tools\..* could not be evaluated/);
      expect(told.map(({ cause }) => String(cause)).join()).toContain(why);
    },
  );

  test("a flag that stalls delays its own calls by a second at most and no others, and listing returns the known tools", async () => {
    const flags: FlagFunction = (_, { toolName }) => (toolName === "add" ? new Promise(() => {}) : true);
    const { router, told } = setUp({ flags });
    const [add, sub, listed] = await Promise.all([
      router.execute({ id: "c1", toolName: "add" }),
      router.execute({ id: "c2", toolName: "sub" }),
      router.listTools(),
    ]);
    expect([codeOf(add), codeOf(sub), listed.map(({ name }) => name)]).toEqual(["TOOL_UNAVAILABLE", "ok", ["sub"]]);
    const causes = told.map(({ cause }) => (cause as Error).message);
    expect(new Set(causes)).toEqual(new Set(["No answer within 1000 ms"]));
  });

  test("a caller need not wait for a flag", async () => {
    const { router } = setUp({ flags: () => new Promise(() => {}) });
    const caller = new AbortController();
    const running = router.execute({ id: "c1", toolName: "add" }, { signal: caller.signal });
    await pause(10);
    caller.abort();
    expect(codeOf(await running)).toBe("CANCELLED");
  });

  test("asynchronous flags count for calls and listTools(), not for synchronous methods", async () => {
    const { router } = setUp({ flags: async (flag) => (flag === "tools.add" ? true : undefined) });
    expect(await seenOf(router)).toEqual({ ran: ["add"], listed: ["add"], surely: [] });
  });
});

describe("ToolRouter with an OpenFeature client", () => {
  let client: Client;
  const provider = new TypedInMemoryProvider();
  const flag = (value: boolean, more: object = {}): never =>
    ({ variants: { yes: true, no: false }, defaultVariant: value ? "yes" : "no", disabled: false, ...more }) as never;
  beforeAll(async () => {
    await OpenFeature.setProviderAndWait("glovebox-tests", provider);
    client = OpenFeature.getClient("glovebox-tests");
  });
  afterAll(() => OpenFeature.close());

  test.for<[string, Parameters<TypedInMemoryProvider["putConfiguration"]>[0], boolean | undefined, readonly string[]]>([
    ["no flags: the configuration decides", {}, true, ["add", "sub"]],
    ["no flags, nothing configured", {}, undefined, []],
    ["one on", { "tools.add": flag(true) }, undefined, ["add"]],
    ["one off", { "tools.add": flag(false) }, true, ["sub"]],
    ["all on", { "tools.enabled": flag(true) }, false, ["add", "sub"]],
    ["a flag that is disabled says nothing", { "tools.add": flag(false, { disabled: true }) }, true, ["add", "sub"]],
    ["a flag of another kind is off", { "tools.add": flag(true, { variants: { yes: "on" } }) }, true, ["sub"]],
    [
      "by tenant",
      {
        "tools.enabled": flag(false, {
          contextEvaluator: ({ targetingKey }: { targetingKey?: string }) =>
            targetingKey === "default" ? "yes" : "no",
        }),
      },
      undefined,
      ["add", "sub"],
    ],
  ])("%s", async ([, flags, enabled, expected]) => {
    provider.putConfiguration(flags);
    const { router } = setUp({ flags: client, enabled });
    expect(await seenOf(router)).toEqual({ ran: expected, listed: expected, surely: [] });
  });
});
