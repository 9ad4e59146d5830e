// Runs vitest on Node 24, the oldest supported version, which npm installs into .ci/node24. Fails if that is missing or another version:
// the tests would otherwise run on the system's Node, and show nothing.
import { spawn, spawnSync } from "node:child_process";
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const pathOf = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

const node = pathOf(".ci/node24/node_modules/node/bin/node");
const found = spawnSync(node, ["--version"], { encoding: "utf8" });
const version = found.error === undefined ? found.stdout.trim() : "no file that runs";
if (!/^v24\.\d/.test(version)) {
  console.error(`Expected Node 24 at .ci/node24/node_modules/node/bin/node, got ${version}. Run npm ci`);
  process.exit(1);
}
console.log(`Tests run on Node ${version}`);
// The processes that tests start by the name `node` are of the same version.
const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ""}` };
const vitest = pathOf("node_modules/vitest/vitest.mjs");
const tests = spawn(node, [vitest, ...process.argv.slice(2)], { stdio: "inherit", env });
tests.once("exit", (code) => {
  process.exitCode = code ?? 1;
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => tests.kill(signal));
