// The minimum version of Node, which must equal the one in package.json.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { oldNodeMessage } from "../../../src/host/util/node-version.ts";

test.for(["20.20.2", "23.11.1", "8.0.0"])("%s is too old", (version) => {
  expect(oldNodeMessage(version)).toBe(`glovebox needs Node 24 or newer; this is Node ${version}`);
});

test.for(["24.0.0", "26.10.0", "100.0.0", process.versions.node])("%s can run Glovebox", (version) => {
  expect(oldNodeMessage(version)).toBeUndefined();
});

test("package.json states the same version", () => {
  const { engines } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
  expect(engines.node).toBe(">=24");
});
