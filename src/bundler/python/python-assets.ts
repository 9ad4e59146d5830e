// Loads the files that a Python process starts from: Glovebox's Python runtime and the files of the installed Pyodide.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { SandboxArtifacts } from "../artifacts/sandbox-artifacts.ts";
import { checkPyodideVersion, pyodideFolder } from "./python-runtime.ts";

export interface PythonAssets {
  /** The bundle that every Python tool runs on. */
  readonly code: string;
  readonly sha256: string;
  readonly wasm: Uint8Array;
  readonly stdlib: Uint8Array;
  /** Hash of all files together. A memory snapshot is valid for one key only. */
  readonly key: string;
  /** Version of Pyodide. */
  readonly version: string;
}

/** @throws {ToolError} TOOL_UNAVAILABLE without the package pyodide in its version; INTERNAL when the installation is broken */
export async function loadPythonAssets({ readPythonRuntime }: SandboxArtifacts): Promise<PythonAssets> {
  const folder = pyodideFolder();
  try {
    const [code, wasm, stdlib] = await Promise.all([
      readPythonRuntime(),
      readFile(join(folder, "pyodide.asm.wasm")),
      readFile(join(folder, "python_stdlib.zip")),
    ]);
    const version = await checkPyodideVersion(code, folder);
    const sha256 = createHash("sha256").update(code).digest("hex");
    const key = createHash("sha256").update(sha256).update(wasm).update(stdlib).digest("hex");
    return { code, sha256, wasm, stdlib, key, version };
  } catch (cause) {
    if (cause instanceof ToolError) throw cause;
    throw new ToolError("INTERNAL", "The files of the Python runtime are missing. Reinstall Glovebox", { cause });
  }
}
