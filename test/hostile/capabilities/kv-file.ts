// A kv file for one test, in a folder that is removed with it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

export function newKvFile(): { readonly path: string } {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-hostile-kv-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return { path: join(folder, "kv.sqlite") };
}
