// Runs once before the tests of the command line and the console: builds the package, because its programs start in half the time that the
// sources need, and unpacks the browser.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isBuilt, stateOfSources } from "../src/bundler/artifacts/build-console.ts";
import { browserPath } from "./console/browser-path.ts";
import { MAIN } from "./support/cli-process.ts";

const BUILD = fileURLToPath(new URL("../src/bundler/artifacts/build-package.ts", import.meta.url));

export default function setup(): void {
  browserPath();
  if (isBuilt("package", stateOfSources(), [MAIN])) return;
  execFileSync(process.execPath, [BUILD], { stdio: ["ignore", "ignore", "inherit"] });
}
