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
const vite = [
  "build",
  "--config",
  root("src/console/vite.config.ts"),
  "--outDir",
  root("dist/console"),
  "--logLevel",
  "warn",
];
execFileSync(process.execPath, [root("node_modules/vite/bin/vite.js"), ...vite], { stdio: "inherit" });
await chmod(root("dist/cli/main.js"), 0o755);
