// Checks the contents of the two scripts of a worker. Each process loads the first at its start, which costs CPU time by its size and imports.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { ON_DEMAND_FILE } from "../../src/sandbox/protocol/platform-modules.ts";

const { workerPath } = await loadSandboxArtifacts();
const scripts = { first: workerPath, second: join(dirname(workerPath), ON_DEMAND_FILE) };

test.for(["node_modules/zod/", 'require("node:crypto")', 'require("node:zlib")'])(
  "only the second of the worker's scripts has %s",
  (part) => {
    expect(readFileSync(scripts.first, "utf8")).not.toContain(part);
    expect(readFileSync(scripts.second, "utf8")).toContain(part);
  },
);
