// The types that an author's editor shows: execute's input and output follow from the schemas. Checked by the compiler (npm run types).
import { expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  type ChunkOf,
  content,
  defineTool,
  type FromJsonSchema,
  type ToolApproval,
  type ToolCalls,
  type ToolContext,
  type ToolKv,
  type ToolOnRollback,
  type ToolWait,
  type ToolWaitFor,
  text,
} from "../../src/sandbox/guest/tool.ts";

test("defineTool() types execute by zod schemas, defaults and transforms included", () => {
  const tool = defineTool({
    description: "Adds",
    inputSchema: z.object({ a: z.number(), b: z.number().default(1), c: z.string().transform((text) => text.length) }),
    outputSchema: z.object({ sum: z.number() }),
    execute: (input, ctx) => {
      expectTypeOf(input).toEqualTypeOf<{ a: number; b: number; c: number }>();
      expectTypeOf(ctx).toEqualTypeOf<ToolContext>();
      return { sum: input.a + input.b + input.c };
    },
  });
  expectTypeOf<{ sum: number }>().toExtend<ReturnType<typeof tool.execute>>();
  expectTypeOf<{ sum: string }>().not.toExtend<ReturnType<typeof tool.execute>>();
});

test("defineTool() rejects an output that does not fit its schema", () => {
  defineTool({
    description: "Adds",
    outputSchema: z.object({ sum: z.number() }),
    // @ts-expect-error sum is a number
    execute: () => ({ sum: "three" }),
  });
});

test("defineTool() types execute by a JSON Schema written as a literal", () => {
  defineTool({
    description: "Finds",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string" },
        limit: { type: "integer" },
        order: { enum: ["up", "down"] },
        tags: { type: "array", items: { type: "string" } },
      },
      required: ["query", "order"],
    },
    execute: (input) => {
      expectTypeOf(input.query).toEqualTypeOf<string>();
      expectTypeOf(input.limit).toEqualTypeOf<number | undefined>();
      expectTypeOf(input.order).toEqualTypeOf<"up" | "down">();
      expectTypeOf(input.tags).toEqualTypeOf<string[] | undefined>();
      return null;
    },
  });
});

test("defineTool() gives a tool without a schema an object of unknowns", () => {
  defineTool({
    description: "Echoes",
    execute: (input) => {
      expectTypeOf(input).toEqualTypeOf<Record<string, unknown>>();
      return input;
    },
  });
});

test("FromJsonSchema says what it can and unknown for the rest", () => {
  expectTypeOf<FromJsonSchema<{ const: 3 }>>().toEqualTypeOf<3>();
  expectTypeOf<FromJsonSchema<{ type: readonly ["string", "null"] }>>().toEqualTypeOf<string | null>();
  expectTypeOf<FromJsonSchema<{ anyOf: readonly [{ type: "string" }, { type: "boolean" }] }>>().toEqualTypeOf<
    string | boolean
  >();
  expectTypeOf<FromJsonSchema<{ not: { type: "string" } }>>().toEqualTypeOf<unknown>();
});

test("ctx has the capabilities that a tool requests, and may have others", () => {
  defineTool({
    description: "Counts",
    capabilities: { kv: true, tools: ["add"], lookUp: true, fetch: ["api.example.com"], secrets: ["KEY"] },
    execute: async (_input, ctx) => {
      expectTypeOf(ctx.kv).toEqualTypeOf<ToolKv>();
      expectTypeOf(ctx.tools).toEqualTypeOf<ToolCalls>();
      expectTypeOf(await ctx.kv.get<number>("n")).toEqualTypeOf<number | undefined>();
      expectTypeOf(await ctx.tools.add?.({ a: 1 })).toEqualTypeOf<unknown>();
      expectTypeOf(await ctx.tools.call("add", { a: 1 })).toEqualTypeOf<unknown>();
      const set = await ctx.kv.set("n", 1, { ifVersion: null, ttlMs: 1_000 });
      if (set.ok) expectTypeOf(set.version).toEqualTypeOf<string>();
      else expectTypeOf(set.version).toEqualTypeOf<string | null>();
      expectTypeOf(ctx.fetch).toEqualTypeOf<typeof globalThis.fetch>();
      expectTypeOf(await ctx.secrets.use("KEY")).toEqualTypeOf<string>();
      expectTypeOf(ctx.lookUp).toEqualTypeOf<unknown>();
    },
  });
  defineTool({
    description: "Waits",
    durable: true,
    capabilities: { waitFor: true },
    execute: async (_input, ctx) => {
      expectTypeOf(ctx.waitFor).toEqualTypeOf<ToolWaitFor>();
      expectTypeOf(await ctx.waitFor({ event: "paid" })).toEqualTypeOf<unknown>();
      expectTypeOf(await ctx.waitFor<number>({ event: "paid", timeoutMs: 1 })).toEqualTypeOf<number>();
      expectTypeOf(await ctx.waitFor({ approval: "Go?" })).toEqualTypeOf<ToolApproval>();
      expectTypeOf(await ctx.waitFor({ durationMs: 5 })).toEqualTypeOf<null>();
      expectTypeOf(await ctx.waitFor({ durationMs: 5 } as ToolWait)).toEqualTypeOf<unknown>();
      expectTypeOf(ctx.onRollback).toEqualTypeOf<ToolOnRollback>();
      // @ts-expect-error the name of an event is a string
      await ctx.waitFor({ event: 5 });
      // @ts-expect-error an unknown field
      await ctx.waitFor({ duration: 5 });
    },
  });
  defineTool({
    description: "Requests nothing",
    execute: (_input, ctx) => {
      expectTypeOf(ctx.kv).toEqualTypeOf<ToolKv | undefined>();
      expectTypeOf(ctx.waitFor).toEqualTypeOf<ToolWaitFor | undefined>();
    },
  });
});

test("defineTool() takes generators: what they yield is known, and what they return fits the schema", () => {
  const tool = defineTool({
    description: "Counts",
    outputSchema: z.object({ sum: z.number() }),
    async *execute() {
      yield 1;
      return { sum: 1 };
    },
  });
  expectTypeOf<ChunkOf<typeof tool>>().toEqualTypeOf<number>();
  defineTool({
    description: "Counts, and returns nothing",
    outputSchema: z.array(z.number()),
    async *execute() {
      yield 1;
    },
  });
  defineTool({
    description: "Counts",
    outputSchema: z.object({ sum: z.number() }),
    // @ts-expect-error sum is a number
    async *execute() {
      yield 1;
      return { sum: "one" };
    },
  });
});

test("defineTool() accepts content in addition to an output that fits the schema", () => {
  defineTool({ description: "Says", execute: () => content([text("hi")]) });
  defineTool({
    description: "Says",
    outputSchema: z.object({ sum: z.number() }),
    execute: async () => content([text("three")], { sum: 3 }),
  });
  defineTool({
    description: "Says",
    outputSchema: z.object({ sum: z.number() }),
    // @ts-expect-error sum is a number
    execute: () => content([text("three")], { sum: "three" }),
  });
});
