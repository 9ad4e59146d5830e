// Reads a call's input from an option, a file or stdin, limited to the largest input that any host allows. A file that is not JSON is
// passed as text to a tool with one text input.

import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { addAbortSignal, type Readable, Writable } from "node:stream";
import { numberIssueOf } from "../../host/json/exact-numbers.ts";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

/** The source of the input, as typed. */
export interface InputChoice {
  readonly json: string | undefined;
  readonly file: string | undefined;
  readonly stdin: boolean;
}

/** The upper bound of the limit, so that an endless stream is rejected. */
const MAX_BYTES = LIMITS.inputBytes.max;
const REASONS: { readonly [code: string]: string } = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
};

/**
 * Parses JSON that a person has written.
 * @throws {UsageError} for invalid JSON, and for an integer that would become another one: often it names something
 */
export function parseJson(text: string, where: string): unknown {
  let issue: string | undefined;
  try {
    issue = numberIssueOf(text);
  } catch (thrown) {
    throw new UsageError(`${where} is not JSON: ${(thrown as Error).message}`);
  }
  if (issue !== undefined) throw new UsageError(`${where}: ${issue}`);
  return JSON.parse(text);
}

async function readBytes(stream: Readable, where: string, signal: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of addAbortSignal(signal, stream) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_BYTES) throw new UsageError(`${where}: expected at most ${MAX_BYTES} bytes, got more`);
      chunks.push(chunk);
    }
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof UsageError) throw thrown;
    const { code = "unknown" } = thrown as NodeJS.ErrnoException;
    throw new UsageError(`${where}: ${REASONS[code] ?? `cannot be read (${code})`}`);
  }
  return Buffer.concat(chunks);
}

/** @throws {UsageError} if the stream cannot be read, is too large, or is not UTF-8; the signal's reason if it aborts */
async function readText(stream: Readable, where: string, signal: AbortSignal): Promise<string> {
  const bytes = await readBytes(stream, where, signal);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${where} is not UTF-8 text`);
  }
}

/** Returns the only required property of a schema if it is a string. */
function soleTextProperty(schema: JsonSchema): string | undefined {
  const { required, properties } = schema;
  const names = Array.isArray(required) ? required : [];
  const [name] = names;
  if (names.length !== 1 || typeof name !== "string" || !isJsonObject(properties)) return undefined;
  const property = properties[name];
  return isJsonObject(property) && property.type === "string" ? name : undefined;
}

async function readInputFile(file: string, schema: JsonSchema, signal: AbortSignal): Promise<unknown> {
  const text = await readText(createReadStream(file), `--input-file ${file}`, signal);
  const property = file.endsWith(".json") ? undefined : soleTextProperty(schema);
  if (property !== undefined) return { [property]: text };
  return parseJson(text, `--input-file ${basename(file)}`);
}

/**
 * Reads and parses the selected input; `{}` if none was selected.
 * @throws {UsageError} if the input cannot be read or is not JSON; the signal's reason if it aborts
 */
export async function readInput(
  { json, file, stdin }: InputChoice,
  schema: JsonSchema,
  { stdin: stream }: Pick<Io, "stdin">,
  signal: AbortSignal,
): Promise<unknown> {
  if (json !== undefined) return parseJson(json, "--input");
  if (file !== undefined) return await readInputFile(file, schema, signal);
  if (stdin) return parseJson(await readText(stream, "stdin", signal), "stdin");
  return {};
}

/**
 * Reads the JSON of `--input` or `--input-file` of a command that uses a server; undefined without them.
 * @throws {UsageError} for both, and if it cannot be read or is not JSON; the signal's reason if it aborts
 */
export async function readJsonInput(
  { input, "input-file": file }: Arguments["values"],
  { stop }: Pick<Io, "stop">,
): Promise<unknown> {
  if (input !== undefined && file !== undefined)
    throw new UsageError("Expected one of --input and --input-file, got both");
  if (typeof input === "string") return parseJson(input, "--input");
  if (typeof file !== "string") return undefined;
  return await readInputFile(file, {}, stop);
}

/** Reads a secret: all of stdin without a line break at its end, or one line that is typed at a prompt and not shown. */
export async function readSecret(io: Io, prompt: string): Promise<string> {
  if (io.stdin.isTTY) return await readHiddenLine(io, prompt);
  return (await readText(io.stdin, "stdin", io.stop)).replace(/\r?\n$/, "");
}

/** Reads an API key: the first line of stdin, which is not shown if it is typed at a prompt. Returns an empty text if there is none. */
export async function readKeyLine(io: Io, prompt: string): Promise<string> {
  if (io.stdin.isTTY) return (await readHiddenLine(io, prompt)).trim();
  return (await readFirstLine(createInterface({ input: io.stdin, signal: io.stop } as never))).trim();
}

/** Reads one line from a terminal that does not show it. @throws the signal's reason if the command is stopped, also by Ctrl-C */
async function readHiddenLine(io: Io, prompt: string): Promise<string> {
  const screen = new Writable({ write: (_chunk, _encoding, done) => done() });
  const options = { input: io.stdin, output: screen, terminal: true, historySize: 0, signal: io.stop };
  const lines = createInterface(options as never);
  // The terminal passes on Ctrl-C as a character meanwhile.
  lines.on("SIGINT", () => process.emit("SIGINT", "SIGINT"));
  io.stderr.print(prompt);
  const line = await readFirstLine(lines);
  io.stderr.print("\n");
  io.stop.throwIfAborted();
  return line;
}

async function readFirstLine(lines: Interface): Promise<string> {
  for await (const line of lines) {
    lines.close();
    return line;
  }
  return "";
}
