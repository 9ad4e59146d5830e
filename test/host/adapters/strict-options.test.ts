// Options of the adapters: an unknown key, a wrong type, or an object that is not plain is an error that names its path.
import { describe, expect, test } from "vitest";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import { toCallSchema, toOpenApi } from "../../../src/host/adapters/openapi.ts";
import { createToolFailureMessage } from "../../../src/host/contract/failure-message.ts";
import { redact } from "../../../src/host/observability/redaction/value-redactor.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { openTool, stubCapability, undescribed } from "../../../src/host/testing/index.ts";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { codeOf } from "../../support/host-zone.ts";
import { expectStrict, failureOfAction, NOT_PLAIN } from "../../support/strict-options.ts";

function makeRouter(): ToolRouter {
  const router = new ToolRouter();
  router.register("everybodys", { description: "For all" }, () => 1);
  router.register("own", {}, () => 1);
  return router;
}
const [DEFINITION] = makeRouter().getRegisteredTools();

describe.for<[string, (router: ToolRouter, options?: unknown) => unknown]>([
  ["toAISDKTools()", (router, options) => toAISDKTools(router, options as never)],
  ["toAgentsTools()", (router, options) => toAgentsTools(router, options as never)],
])("%s", ([, toTools]) => {
  test("rejects invalid options", async () => {
    await expectStrict(
      (options) => toTools(makeRouter(), options),
      [
        [{ tenant: "acme" }, 'options.tenant: Unknown option. Did you mean "tenantId"?'],
        [{ tool: [] }, 'options.tool: Unknown option. Did you mean "tools"?'],
        [{ tenantId: "" }, "options.tenantId: "],
        [{ tenantId: 5 }, "options.tenantId: "],
        [{ tools: "own" }, "options.tools: Expected an array"],
        [{ tools: Promise.resolve([]) }, "options.tools: Expected an array"],
        [{ tools: [Promise.resolve(DEFINITION)] }, "options.tools[0]: Expected a tool definition"],
        [{ tools: ["everybodys", makeRouter().listTools()] }, "options.tools[1]: Expected a tool definition"],
        [{ tools: [{}] }, "options.tools[0].name: Expected a tool name"],
        [{ tools: [{ ...DEFINITION, parameters: {} }] }, "options.tools[0].parameters: Unknown option"],
        [{ tools: [{ ...DEFINITION, inputSchema: Promise.resolve({}) }] }, "options.tools[0].inputSchema: Expected"],
        [{ context: Promise.resolve({}) }, "options.context: Expected a plain object"],
        [{ context: [] }, "options.context: Expected a plain object"],
        [{ context: { tenantId: "other" } }, "options.context.tenantId: Unknown option"],
        [{ context: { signal: AbortSignal.abort() } }, "options.context.signal: Unknown option"],
        [{ context: { timeout: 5 } }, 'options.context.timeout: Unknown option. Did you mean "timeoutMs"?'],
        [{ context: { timeoutMs: "5" } }, "context.timeoutMs: "],
      ],
    );
  });

  test.for([undefined, null, "glovebox", Promise.resolve(makeRouter()), {}])("rejects %s for a host", async (host) => {
    const error = await failureOfAction(() => toTools(host as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/^router: /) });
  });

  test("treats undefined as not given", () => {
    const options = { tenantId: undefined, tools: undefined, context: undefined };
    expect(JSON.stringify(toTools(makeRouter(), options))).toBe(JSON.stringify(toTools(makeRouter())));
  });
});

describe("toOpenApi() and toCallSchema()", () => {
  const definitions = makeRouter().getRegisteredTools();

  test("reject invalid options", async () => {
    await expectStrict(
      (options) => toOpenApi(definitions, options as never),
      [
        [{ titel: "x" }, 'options.titel: Unknown option. Did you mean "title"?'],
        [{ title: 5 }, "options.title: "],
        [{ servers: { url: "x" } }, "options.servers: "],
        [{ servers: [{ uri: "x" }] }, "options.servers.0."],
        [{ pathOf: "/x" }, "options.pathOf: Expected a function"],
      ],
    );
  });

  test.for<[string, unknown, string]>([
    ["a promise", Promise.resolve(definitions), "definitions: Expected an array of tool definitions, got a Promise"],
    ["one definition", DEFINITION, "definitions: Expected an array of tool definitions, got an object"],
    ["a list with a promise", [Promise.resolve(DEFINITION)], "definitions[0]: Expected a tool definition"],
    ["a list with a name", ["own"], "definitions[0]: Expected a tool definition"],
    ["a sparse list", new Array(1), "definitions[0]: Expected a tool definition"],
  ])("reject %s for definitions", async ([, given, message]) => {
    const error = { code: "PARAM_INVALID", message: expect.stringContaining(message) };
    expect(await failureOfAction(() => toOpenApi(given as never))).toMatchObject(error);
    expect(await failureOfAction(() => toCallSchema(given as never))).toMatchObject(error);
  });

  test.for<readonly [string, () => unknown]>([
    ...FAILING_CALLBACKS,
    ["returns a promise", async () => "/x"],
    ["returns nothing", () => undefined],
    ["returns an invalid path", () => "x"],
    ["returns the same path again", () => "/x"],
  ])("toOpenApi() rejects a pathOf that %s, and names the tool", async ([, pathOf]) => {
    const error = await failureOfAction(() => toOpenApi(definitions, { pathOf: pathOf as never }));
    expect(error).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(/^options\.pathOf\("(everybodys|own)"\): /),
    });
  });
});

describe("redact()", () => {
  test("rejects invalid options", async () => {
    await expectStrict(
      (options) => redact({}, options as never),
      [
        [{ maxText: 5 }, "options.maxText: Unknown option"],
        [{ names: "apiKey" }, "options.names: "],
        [{ names: new Set(["apiKey"]) }, "options.names: "],
        [{ values: new Map([["A", "secret-value"]]) }, "options.values: "],
        [{ values: Promise.resolve({}) }, "options.values: "],
        [{ maxDepth: "5" }, "options.maxDepth: "],
      ],
    );
  });
});

describe("createToolFailureMessage()", () => {
  test.for([undefined, null, {}, "ok", Promise.resolve({ success: true }), { success: "true" }, { success: 1 }])(
    "describes %s as a failed call",
    (result) => {
      expect(createToolFailureMessage(result as never)).toMatch(/failed with INTERNAL/);
    },
  );
});

describe("openTool()", () => {
  const SOURCE = `${import.meta.dirname}/../../../tools/echo`;

  test("rejects invalid options", async () => {
    await expectStrict(
      (options) => openTool(SOURCE, options as never),
      [
        [{ grants: ["fetch"] }, 'options.grants: Unknown option. Did you mean "grant"?'],
        [{ tenantId: "" }, "options.tenantId: "],
        [{ grant: "fetch" }, "options.grant: "],
        [{ capabilities: [{}] }, "options.capabilities.0: "],
        [{ overrides: Promise.resolve({}) }, "options.overrides: Expected a plain object"],
        [{ host: Promise.resolve({}) }, "options.host: Expected a plain object"],
        [{ host: { limit: {} } }, 'options.limit: Unknown option. Did you mean "limits"?'],
        [{ host: { limits: Promise.resolve({}) } }, "options.limits: Expected a plain object"],
        [{ host: { capabilities: [] } }, "options.host.capabilities: Unknown option"],
      ],
    );
  });

  test.for([undefined, 5, Promise.resolve(SOURCE), { path: SOURCE }])("rejects %s for a path", async (path) => {
    const error = await failureOfAction(() => openTool(path as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/^path: Expected a string/) });
  });

  test("calls the tool as its tenant when a context's tenantId is undefined, and rejects a context that is not plain", async () => {
    await using tool = await openTool(SOURCE, { host: { cache: false, kv: undefined } });
    expect(codeOf(await tool.call({}, { tenantId: undefined }))).not.toBe("TOOL_UNAVAILABLE");
    for (const [, make] of NOT_PLAIN) expect(codeOf(await tool.call({}, make() as never))).toBe("PARAM_INVALID");
  });

  test("stubCapability() and undescribed() reject invalid arguments", async () => {
    const error = { code: "PARAM_INVALID" };
    expect(await failureOfAction(() => stubCapability("x", "answer" as never))).toMatchObject(error);
    expect(await failureOfAction(() => stubCapability(5 as never))).toMatchObject(error);
    for (const [, make] of NOT_PLAIN) expect(await failureOfAction(() => undescribed(make()))).toMatchObject(error);
  });
});
