// Builds the published package into dist/: the compiler emits JavaScript and declarations, esbuild emits the sandbox's own files, Vite the console.
import { execFileSync } from "node:child_process";
import { chmod, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { writeBuiltinBundles } from "./builtin-bundles.ts";
import { writeSandboxArtifacts } from "./sandbox-artifacts.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

await rm(root("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [root("node_modules/typescript/bin/tsc"), "-p", root("src/tsconfig.json")], {
  stdio: "inherit",
});
await writeSandboxArtifacts(root("dist/sandbox/artifacts"));
await writeBuiltinBundles(root("dist/tools"));
for (const [config, folder] of [
  ["src/console/vite.config.ts", "dist/console"],
  ["src/console/trace/vite.config.ts", "dist/trace"],
] as const) {
  const args = ["build", "--config", root(config), "--outDir", root(folder), "--logLevel", "warn"];
  execFileSync(process.execPath, [root("node_modules/vite/bin/vite.js"), ...args], { stdio: "inherit" });
}
await chmod(root("dist/cli/main.js"), 0o755);
