// The schema thread's own side: parses a value that the host has parsed before, checks it, and says how that ended; or repairs a text.
import { parentPort } from "node:worker_threads";
import { JsonErrorFactory } from "../../json/json-errors.ts";
import { parseLargeJson } from "../../json/parse-large-json.ts";
import { setBounded } from "../../util/bounded-map.ts";
import { type CompiledSchema, compileSchema } from "../compile-schema.ts";
import type { Repaired, RepairTask, SchemaCheck } from "./schema-thread.ts";

/** Tools that send large values one after another: to make a schema ready takes up to 0.2 s. */
const MAX_KEPT_SCHEMAS = 16;
const kept = new Map<string, CompiledSchema>();

function schemaOf(text: string): CompiledSchema {
  const compiled = kept.get(text) ?? compileSchema(JSON.parse(text));
  setBounded(kept, text, compiled, MAX_KEPT_SCHEMAS);
  return compiled;
}

/** The host has taken it, so there is nothing left to refuse. */
const UNBOUNDED = {
  bytes: Number.POSITIVE_INFINITY,
  depth: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
};
const refusals = new JsonErrorFactory(UNBOUNDED, { invalid: "INTERNAL", tooLarge: "INTERNAL" }, "A value");

async function check({ schema, text, budgetMs }: SchemaCheck): Promise<void> {
  const compiled = schemaOf(schema);
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  const value = await parseLargeJson(bytes, { limits: UNBOUNDED, refusals });
  parentPort?.postMessage(compiled.validate(value, { budgetMs }));
}

async function repair(given: string): Promise<void> {
  let text: string | undefined;
  try {
    const { jsonrepair } = await import("jsonrepair");
    text = jsonrepair(given);
  } catch {
    // It cannot be, or its nesting passes the stack.
  }
  const repaired: Repaired = { text };
  parentPort?.postMessage(repaired);
}

parentPort?.on("message", (message: SchemaCheck | RepairTask) => {
  void ("repair" in message ? repair(message.repair) : check(message));
});
