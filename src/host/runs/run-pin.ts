// What a run is pinned to when it begins: its code, and the engine that repeats its journal. Code of a code mode has no version that could be
// kept, so its journal has what was compiled, and which tool each name in it means.
import { createHash } from "node:crypto";
import * as z from "zod";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { packageVersion } from "../config/package-version.ts";

/** Longest name of a tool in code, and of a tool: a server's and its tool's. */
const MAX_NAME = 257;
const MAX_NAMES = 100_000;

/** Pinned code of a code-mode run: another release may compile the same source differently. */
export const PinnedCodeSchema = z.strictObject({
  /** Absent for Python, whose source is the input of the run. The journal has the hash of `code`. */
  bundle: z.strictObject({ code: z.string(), sourceMap: z.string() }).optional(),
  /** Names in code that differ from the names of their tools, each with the name of its tool. */
  names: z.array(z.tuple([z.string().max(MAX_NAME), z.string().max(MAX_NAME)])).max(MAX_NAMES),
});
export type PinnedCode = z.infer<typeof PinnedCodeSchema>;

export const EngineSchema = z.strictObject({
  glovebox: z.string(),
  v8: z.string(),
  journal: z.int().min(1).optional(),
  /** Version of Pyodide, for a run of Python. Runs of earlier releases do not have it. */
  python: z.string().max(64).optional(),
});
type EngineVersion = z.infer<typeof EngineSchema>;

/** The code that an attempt runs. */
export interface RunCode {
  /** Hash of the bundle. Python: key of the source. */
  readonly key: string;
  /** Set for Python: version of Pyodide, and hash of the runtime, which earlier releases have stored as the hash of the code. */
  readonly python?: { readonly version: string; readonly runtime: string } | undefined;
}

/**
 * Version of what a journal means: which requests and turns a guest makes for the same code, on the guest's own platform and on Glovebox's
 * Python runtime. A change that makes old journals unrepeatable increments it.
 */
const JOURNAL_VERSION = 1;
/** V8's major and minor version: a later patch release runs code in the same way. */
const lineOf = (v8: string): string => v8.split(".", 2).join(".");

/** Returns the engine that a run begins with. */
export const engineOf = ({ python }: RunCode): EngineVersion => ({
  glovebox: packageVersion(),
  v8: process.versions.v8,
  journal: JOURNAL_VERSION,
  ...(python === undefined ? {} : { python: python.version }),
});

/** @throws {ToolError} TOOL_UNAVAILABLE (`engine_version`) if this engine may repeat the journal in another way */
export function checkEngine(began: EngineVersion, code: RunCode): void {
  const shown = ({ v8, journal = 1, python }: EngineVersion) => ({
    v8: lineOf(v8),
    journal,
    // Without a version, the hash of the runtime has been compared.
    ...(began.python === undefined || python === undefined ? {} : { python }),
  });
  const [expected, actual] = [shown(began), shown(engineOf(code))];
  if (JSON.stringify(expected) === JSON.stringify(actual)) return;
  const describe = ({ v8, journal, python }: typeof expected): string =>
    `V8 ${v8}${python === undefined ? "" : `, Pyodide ${python}`} and journal version ${journal}`;
  const message = `The run began with ${describe(expected)}, and this process has ${describe(actual)}`;
  throw unavailable("engine_version", message, { details: { expected, actual } });
}

/**
 * Checks that an attempt runs the code with which the run began.
 * @param isCode whether it is code of a code mode
 * @throws {ToolError} TOOL_UNAVAILABLE: `not_found` for another version of a tool; `engine_version` for code that an earlier release has compiled
 *   without storing it, and that this one compiles in another way
 */
export function checkCode(
  { bundle, engine }: { readonly bundle: string; readonly engine: EngineVersion },
  { key, python }: RunCode,
  isCode: boolean,
): void {
  const actual = python !== undefined && engine.python === undefined ? python.runtime : key;
  if (bundle === actual) return;
  if (isCode) {
    const message =
      "An earlier release began the run without storing the compiled code, and this release compiles it in another way";
    throw unavailable("engine_version", message);
  }
  throw unavailable("not_found", "The run needs the version of the tool with which it began, which is not registered");
}

/** What a continuation of code runs. */
export interface StoredPinnedCode {
  /** Absent for Python. */
  readonly bundle?: { readonly sha256: string; readonly code: string; readonly sourceMap: string } | undefined;
  readonly names: PinnedCode["names"];
}

/**
 * Reads what the journal has of the code of a run.
 * @param start entry of the journal
 * @returns undefined for the run of a tool, and for code that an earlier release has begun
 * @throws {ToolError} INTERNAL if the compiled code is not the one with which the run began
 */
export function readStoredCode({
  bundle: sha256,
  code,
}: {
  readonly bundle: string;
  readonly code?: PinnedCode | undefined;
}): StoredPinnedCode | undefined {
  if (code === undefined) return undefined;
  if (code.bundle === undefined) return { names: code.names };
  if (createHash("sha256").update(code.bundle.code).digest("hex") !== sha256)
    throw new ToolError("INTERNAL", "The stored code of the run does not match its hash");
  return { names: code.names, bundle: { sha256, ...code.bundle } };
}
