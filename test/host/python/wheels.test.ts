// Which wheels of a folder are accepted, and the messages for those that are not.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { packWheels, readWheels, unpackWheels } from "../../../src/host/python/wheels.ts";

function storeOf(...fileNames: readonly string[]): string {
  const store = mkdtempSync(join(tmpdir(), "wheels-"));
  onTestFinished(() => rmSync(store, { recursive: true }));
  for (const name of fileNames) writeFileSync(join(store, name), name);
  return store;
}

const NATIVE = "numpy-2.4.6-cp314-cp314-pyemscripten_2026_0_wasm32.whl";

test("readWheels() reads the allowed wheels that fit this interpreter, by normalized names", async () => {
  const pure = "Foo_Bar-1.0-py2.py3-none-any.whl";
  const store = storeOf(
    pure,
    NATIVE,
    "numpy-2.4.6-cp313-cp313-manylinux_2_17_x86_64.whl",
    "other-1.0-py3-none-any.whl",
    "x.txt",
  );
  const wheels = await readWheels({ dir: store, allow: ["numpy", "foo.bar", "Foo-Bar"] });
  expect(wheels.map(({ fileName, bytes }) => [fileName, String(bytes)])).toEqual([
    [pure, pure],
    [NATIVE, NATIVE],
  ]);
  expect(await readWheels({ dir: store, allow: [] })).toEqual([]);
  expect(await readWheels(undefined)).toEqual([]);
});

test.for([
  [["a-1.0-py3-none-any.whl"], "b", /the folder has no wheel of b/],
  [["a-1.0-py3-none-any.whl", "a-2.0-py3-none-any.whl"], "a", /expected one wheel of a, got a-1\.0.*, a-2\.0/],
  [["a-1.0-cp314-cp314-win_amd64.whl"], "a", /built for cp314-cp314-win_amd64; expected py3-none-any or cp314-/],
  [["a-1.0-cp313-cp313-pyemscripten_2026_0_wasm32.whl"], "a", /built for cp313/],
  [["a-1.0-py2-none-any.whl"], "a", /built for py2-none-any/],
] as const)("readWheels() rejects %#", async ([fileNames, name, message]) => {
  const store = storeOf(...fileNames);
  await expect(readWheels({ dir: store, allow: [name] })).rejects.toMatchObject({
    code: "PARAM_INVALID",
    message: expect.stringMatching(message),
  });
});

test("readWheels() reports an unreadable store without its path", async () => {
  const error = await readWheels({ dir: "/no/such/store", allow: ["a"] }).catch((thrown: Error) => thrown);
  expect(String(error)).toMatch(/options\.python\.packages: the store/);
  expect(String(error)).not.toContain("/no/such");
});

test("packed wheels are unpacked as they were, and other bytes are rejected", () => {
  const wheels = ["a-1.0-py3-none-any.whl", "b-2.0-py3-none-any.whl"].map((fileName) => ({
    fileName,
    bytes: Buffer.from(`contents of ${fileName}`),
  }));
  const packed = packWheels(wheels) as Uint8Array;
  expect(unpackWheels(packed).map(({ fileName, bytes }) => ({ fileName, bytes: Buffer.from(bytes) }))).toEqual(wheels);
  expect(packWheels([])).toBeUndefined();
  expect(unpackWheels(undefined)).toEqual([]);
  const path = packWheels([{ fileName: "../a-1.0-py3-none-any.whl", bytes: Buffer.from("x") }]) as Uint8Array;
  for (const other of [new Uint8Array(0), packed.subarray(0, packed.length - 1), Buffer.from("other"), path])
    expect(() => unpackWheels(other)).toThrow("Expected wheels");
});
