// Entry of the schema thread: parses and validates a value that the host has parsed before, or repairs a text.
import { parentPort } from "node:worker_threads";
import { JsonErrorFactory } from "../../json/json-errors.ts";
import { parseLargeJson } from "../../json/parse-large-json.ts";
import { setBounded } from "../../util/bounded-map.ts";
import { type CompiledSchema, compileSchema } from "../compile-schema.ts";
import type { Repaired, RepairTask, SchemaCheck } from "./schema-thread.ts";

/** Compiled schemas to keep for tools that send several large values. Compiling a schema takes up to 0.2 s. */
const MAX_KEPT_SCHEMAS = 16;
const kept = new Map<string, CompiledSchema>();

function schemaOf(text: string): CompiledSchema {
  const compiled = kept.get(text) ?? compileSchema(JSON.parse(text));
  setBounded(kept, text, compiled, MAX_KEPT_SCHEMAS);
  return compiled;
}

/** The host has already checked the limits of the value. */
const UNBOUNDED = {
  bytes: Number.POSITIVE_INFINITY,
  depth: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
};
const errors = new JsonErrorFactory(UNBOUNDED, { invalid: "INTERNAL", tooLarge: "INTERNAL" }, "A value");

async function check({ schema, text, budgetMs }: SchemaCheck): Promise<void> {
  const compiled = schemaOf(schema);
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  const value = await parseLargeJson(bytes, { limits: UNBOUNDED, errors });
  parentPort?.postMessage(compiled.validate(value, { budgetMs }));
}

async function repair(given: string): Promise<void> {
  let text: string | undefined;
  try {
    const { jsonrepair } = await import("jsonrepair");
    text = jsonrepair(given);
  } catch {
    // The text cannot be repaired, or is nested too deeply for the stack.
  }
  const repaired: Repaired = { text };
  parentPort?.postMessage(repaired);
}

parentPort?.on("message", (message: SchemaCheck | RepairTask) => {
  void ("repair" in message ? repair(message.repair) : check(message));
});
