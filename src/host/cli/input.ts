// Where run's input comes from: an option, a file, stdin. A file that is not JSON is a text, for a tool that takes just one.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { text as readAll } from "node:stream/consumers";
import type { JsonSchema } from "../../sandbox/definition.ts";
import type { Io } from "./usage.ts";
import { UsageError } from "./usage.ts";

/** Where the input is, as it was typed. */
export interface InputChoice {
  readonly json: string | undefined;
  readonly file: string | undefined;
  readonly stdin: boolean;
}

function parseJson(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw new UsageError(`${where} is not JSON: ${(thrown as Error).message}`);
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "there is no such file" : code === "EISDIR" ? "it is a folder" : String(code);
    throw new UsageError(`--input-file ${file}: ${why}`);
  }
}

const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The one required property of type string, if the schema has exactly one required property. */
function soleTextProperty(schema: JsonSchema): string | undefined {
  const { required, properties } = schema;
  const names = Array.isArray(required) ? required : [];
  const [name] = names;
  if (names.length !== 1 || typeof name !== "string" || !isObject(properties)) return undefined;
  const property = properties[name];
  return isObject(property) && property.type === "string" ? name : undefined;
}

async function readInputFile(file: string, schema: JsonSchema): Promise<unknown> {
  const text = await readText(file);
  const property = file.endsWith(".json") ? undefined : soleTextProperty(schema);
  if (property !== undefined) return { [property]: text };
  return parseJson(text, `--input-file ${basename(file)}`);
}

/** @throws {UsageError} for more than one source, a file that cannot be read, or text that is not JSON */
export async function readInput(choice: InputChoice, schema: JsonSchema, io: Io): Promise<unknown> {
  const given = [choice.json !== undefined, choice.file !== undefined, choice.stdin].filter(Boolean).length;
  if (given > 1) throw new UsageError("Expected one of --input, --input-file and -, got several");
  if (choice.json !== undefined) return parseJson(choice.json, "--input");
  if (choice.file !== undefined) return await readInputFile(choice.file, schema);
  if (choice.stdin) return parseJson(await readAll(io.stdin), "stdin");
  return {};
}
