// The image of the server and of executors.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PYODIDE_VERSION } from "../../src/bundler/python/python-runtime.ts";

test("the image has the version of Pyodide that this version of Glovebox needs", () => {
  const dockerfile = readFileSync(new URL("../../deploy/Dockerfile", import.meta.url), "utf8");
  expect(dockerfile).toContain(` pyodide@${PYODIDE_VERSION}\n`);
});
