// ctx.elicit, ctx.sample and ctx.roots in real tools: which clients support them, how answers are checked, and whose time is used.
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallClient } from "../../../src/host/contract/client-requests.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import {
  CALLBACK_ERROR_MESSAGE,
  FAILING_CALLBACKS,
  inOtherRealm,
  toThenable,
} from "../../support/failing-callbacks.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

const FORM = { type: "object", properties: { size: { type: "integer", maximum: 9 } }, required: ["size"] };
const ASKER = `export default async ({ what, request, thenMs = 0 }, ctx) => {
  const answer = await ctx[what](request);
  if (thenMs > 0) await new Promise((resolve) => setTimeout(resolve, thenMs));
  return answer;
};`;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ limits: { timeoutMs: 120_000 } });
  const capabilities = { elicit: true, sample: true, roots: true };
  await glovebox.addTool({ name: "asker", source: ASKER, overrides: { capabilities } });
  await glovebox.addTool({ name: "ungranted", source: ASKER });
  const outer = "export default (input, { tools }) => tools.asker(input)";
  await glovebox.addTool({ name: "outer", source: outer, overrides: { capabilities: { tools: true } } });
});
afterAll(() => glovebox.close());

const run = (args: object, context: CallContext, toolName = "asker"): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, context);
const form = { what: "elicit", request: { message: "Which size?", requestedSchema: FORM } };

describe("ctx.elicit", () => {
  test("sends the form to the client, and returns its answer to the tool", async () => {
    const requested: unknown[] = [];
    const client: CallClient = {
      elicit: async (request) => {
        requested.push(request);
        return { action: "accept", content: { size: 7 } };
      },
    };
    expect(outputOf(await run(form, { client }))).toEqual({ action: "accept", content: { size: 7 } });
    expect(requested).toEqual([form.request]);
  });

  test.for(["decline", "cancel"] as const)("tells of a person who says %s", async (action) => {
    expect(outputOf(await run(form, { client: { elicit: async () => ({ action }) } }))).toEqual({ action });
  });

  test.for([[{ size: 10 }], [{}], [null]])("rejects %j, which does not match requestedSchema", async ([content]) => {
    const elicit = async () => ({ action: "accept", content }) as never;
    const result = await run(form, { client: { elicit } });
    expect(codeOf(result)).toBe("TOOL_FAILED");
    expect(errorOf(result).message).toContain("does not match requestedSchema");
    expect(errorOf(result).message).toContain("size");
  });

  test.for([
    [{ message: "No form" }],
    [{ message: "", requestedSchema: FORM }],
    [{ message: "x", requestedSchema: { type: "nonsense" } }],
    [{ message: "x", requestedSchema: { type: "string" } }],
    [{ message: "x", requestedSchema: { type: "object" } }],
    [{ message: "x", requestedSchema: { type: "object", properties: { a: { type: "object", properties: {} } } } }],
    [{ message: "x", requestedSchema: { type: "object", properties: { a: true } } }],
    [{ mode: "url", message: "x", url: "javascript:alert(1)" }],
    [{ mode: "url", message: "x" }],
  ])("rejects the request %j without sending it to the client", async ([request]) => {
    let requested = 0;
    const elicit = async () => {
      requested += 1;
      return { action: "accept" } as const;
    };
    const result = await run({ what: "elicit", request }, { client: { elicit } });
    // It says what would be right.
    expect(errorOf(result).message).not.toMatch(/Invalid input|^$/);
    expect(requested).toBe(0);
  });
});

describe("ctx.sample and ctx.roots", () => {
  test("return the client's answer", async () => {
    const message = { role: "assistant", content: { type: "text", text: "hello" }, model: "m1" } as const;
    const request = { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 10 };
    const client: CallClient = {
      sample: async ({ maxTokens }) => ({ ...message, stopReason: String(maxTokens) }),
      listRoots: async () => ({ roots: [{ uri: "file:///work", name: "work" }] }),
    };
    expect(outputOf(await run({ what: "sample", request }, { client }))).toEqual({ ...message, stopReason: "10" });
    expect(outputOf(await run({ what: "roots" }, { client }))).toEqual({
      roots: [{ uri: "file:///work", name: "work" }],
    });
  });

  test.for([
    [{ messages: [{ role: "user", content: 5 }], maxTokens: 10 }],
    [{ messages: [{ role: "user", content: ["hi"] }], maxTokens: 10 }],
    [{ messages: [], maxTokens: 10 }],
  ])("reject the request %j without sending it to the client", async ([request]) => {
    const sample = () => expect.unreachable("the client receives no request");
    expect(errorOf(await run({ what: "sample", request }, { client: { sample } })).message).toMatch(/messages/);
  });

  test.for([[undefined], ["hello"], [{ type: "text" }], [[{ type: "text", text: 5 }]], [{ text: "hello" }]])(
    "reject an answer with the content %j",
    async ([content]) => {
      const request = { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 10 };
      const client = { sample: async () => ({ role: "assistant", model: "m1", content }) } as unknown as CallClient;
      const result = await run({ what: "sample", request }, { client });
      expect(codeOf(result)).toBe("TOOL_FAILED");
      expect(errorOf(result).message).toContain("invalid answer");
    },
  );

  test("reject an invalid answer", async () => {
    const client = { listRoots: async () => ({ roots: "all" }) } as unknown as CallClient;
    const result = await run({ what: "roots" }, { client });
    expect(codeOf(result)).toBe("TOOL_FAILED");
    expect(errorOf(result).message).toContain("invalid answer");
  });
});

describe("a request to the client", () => {
  test.for([
    ["asker", {}],
    ["asker", { client: {} }],
    ["ungranted", { client: { elicit: async () => ({ action: "accept", content: { size: 1 } }) as const } }],
  ] as const)("is denied: %s with %j", async ([toolName, context]) => {
    const result = await run(form, context, toolName);
    expect(result.success).toBe(false);
    expect(result.success || result.error.message).not.toContain("size");
  });

  test("does not disclose the client's error to the tool", async () => {
    const elicit = async (): Promise<never> => {
      throw new Error("at /etc/secret");
    };
    const result = await run(form, { client: { elicit } });
    expect(codeOf(result)).toBe("TOOL_FAILED");
    expect(errorOf(result).message).not.toContain("secret");
    expectPublishable(errorOf(result));
  });

  test.for(["asker", "outer"])("takes none of the time of %s, which goes on afterwards", async (toolName) => {
    const contextOf = (timeoutMs: number) => {
      const elicit = async () => {
        await pause(timeoutMs + 500);
        return { action: "accept", content: { size: 1 } } as const;
      };
      return { client: { elicit }, timeoutMs };
    };
    let result = await run(form, contextOf(2_500), toolName);
    // On a busy machine the rest of the call can take as long.
    if (!result.success) result = await run(form, contextOf(20_000), toolName);
    expect(outputOf(result)).toEqual({ action: "accept", content: { size: 1 } });
    expect(codeOf(await run({ ...form, thenMs: 600_000 }, contextOf(2_500), toolName))).toBe("TOOL_TIMEOUT");
  });

  test.for(FAILING_CALLBACKS)("fails for a client that %s, and does not end the process", async ([, elicit]) => {
    const rejections = watchRejections();
    const result = await run(form, { client: { elicit: elicit as never } });
    expect(codeOf(result)).toBe("TOOL_FAILED");
    expect(JSON.stringify(result)).not.toContain(CALLBACK_ERROR_MESSAGE);
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, () => unknown]>([
    ["a value that is not a promise", () => ({ action: "accept", content: { size: 1 } })],
    ["a thenable", () => toThenable((resolve) => resolve({ action: "accept", content: { size: 1 } }))],
    ["a promise of another realm", () => inOtherRealm('Promise.resolve({ action: "accept", content: { size: 1 } })')],
  ])("accepts %s as an answer, and the call's clock runs on", async ([, elicit]) => {
    const client = { elicit: elicit as never };
    expect(outputOf(await run(form, { client }))).toEqual({ action: "accept", content: { size: 1 } });
    expect(codeOf(await run({ ...form, thenMs: 600_000 }, { client, timeoutMs: 2_000 }))).toBe("TOOL_TIMEOUT");
  });

  test.for<[string, unknown, string]>([
    ["undefined", undefined, "CAPABILITY_DENIED"],
    ["null", null, "TOOL_FAILED"],
    ["false", false, "TOOL_FAILED"],
    ["text", "accept", "TOOL_FAILED"],
    ["an object without an action", {}, "TOOL_FAILED"],
  ])("fails for a client that answers %s, at once or later", async ([, answer, code]) => {
    for (const elicit of [() => answer, async () => answer]) {
      expect(codeOf(await run(form, { client: { elicit: elicit as never } }))).toBe(code);
    }
  });

  test("ends with the call, and aborts the client's signal", async () => {
    const requested = Promise.withResolvers<AbortSignal>();
    const controller = new AbortController();
    const elicit = (_request: unknown, { signal }: { signal: AbortSignal }) => {
      requested.resolve(signal);
      return new Promise<never>(() => {});
    };
    const result = run(form, { client: { elicit }, signal: controller.signal });
    const signal = await requested.promise;
    expect(signal.aborted).toBe(false);
    controller.abort();
    expect(codeOf(await result)).toBe("CANCELLED");
    expect(signal.aborted).toBe(true);
  });
});
