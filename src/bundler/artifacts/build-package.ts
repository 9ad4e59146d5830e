// Builds the published package into dist/: the compiler emits JavaScript and declarations, esbuild bundles the JavaScript and emits the
// sandbox's own files, Vite emits the console.
import { execFileSync } from "node:child_process";
import { chmod, cp, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { buildConsole, CONSOLE_FOLDERS, recordBuild, stateOfSources } from "./build-console.ts";
import { writeBuiltinBundles } from "./builtin-bundles.ts";
import { bundlePackage } from "./bundle-package.ts";
import { writeSandboxArtifacts } from "./sandbox-artifacts.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

const state = stateOfSources();
await rm(root("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [root("node_modules/typescript/bin/tsc"), "-p", root("src/tsconfig.json")], {
  stdio: "inherit",
});
await bundlePackage(root("dist"));
await writeSandboxArtifacts(root("dist/sandbox/artifacts"));
await writeBuiltinBundles(root("dist/tools"));
buildConsole();
for (const [name, folder] of Object.entries(CONSOLE_FOLDERS))
  await cp(folder, root(`dist/${name}`), { recursive: true });
await chmod(root("dist/cli/main.js"), 0o755);
recordBuild("package", state);
