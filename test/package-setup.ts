// Runs once before the tests of the command line: builds the package, because its programs start in half the time that the sources need.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isBuilt, stateOfSources } from "../src/bundler/artifacts/build-console.ts";
import { MAIN } from "./support/cli-process.ts";

const BUILD = fileURLToPath(new URL("../src/bundler/artifacts/build-package.ts", import.meta.url));

export default function setup(): void {
  if (isBuilt("package", stateOfSources(), [MAIN])) return;
  execFileSync(process.execPath, [BUILD], { stdio: ["ignore", "ignore", "inherit"] });
}
