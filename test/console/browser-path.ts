// The program of the browser, which its package has in compressed form.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Unpacks into the folder for temporary files. */
const UNPACK = 'import chromium from "@sparticuz/chromium"; await chromium.executablePath();';

/**
 * Returns the path of the browser's program. The first process to ask unpacks it in a folder of its own and gives that its final name: the
 * package itself takes a file that another process is still writing for complete, so that its browser does not start.
 */
export function browserPath(): string {
  const manifest = readFileSync(join(ROOT, "node_modules/@sparticuz/chromium/package.json"), "utf8");
  const folder = join(tmpdir(), `glovebox-chromium-${(JSON.parse(manifest) as { version: string }).version}`);
  const path = join(folder, "chromium");
  if (existsSync(path)) return path;
  const own = mkdtempSync(`${folder}-`);
  try {
    const env = { ...process.env, TMPDIR: own };
    execFileSync(process.execPath, ["--input-type=module", "--eval", UNPACK], { cwd: ROOT, env, stdio: "inherit" });
    renameSync(own, folder);
  } catch (thrown) {
    rmSync(own, { recursive: true, force: true });
    // Another process was first.
    if (!existsSync(path)) throw thrown;
  }
  return path;
}
