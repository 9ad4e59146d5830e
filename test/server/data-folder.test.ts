// A data folder that cannot be used, such as a volume that is not mounted: the error names the option and the path.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServer } from "../../src/server/index.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-data-folder-"));
  await writeFile(join(folder, "file"), "");
  await writeFile(join(folder, "glovebox.sqlite"), "This is no database, and longer than the header of one");
});
afterAll(() => rm(folder, { recursive: true }));

test.for<readonly [string, () => string, RegExp]>([
  ["is a file", () => join(folder, "file"), /\/file\/glovebox\.sqlite": unable to open database file$/],
  ["is below a file", () => join(folder, "file", "data"), /\/file\/data\/glovebox\.sqlite": ENOTDIR/],
  ["has another file as its database", () => folder, /\/glovebox\.sqlite": file is not a database$/],
  // Node's recursive mkdir never ends there.
  ["is in a file system without folders of its users", () => "/proc/glovebox/data", /glovebox\.sqlite": ENOENT/],
])("rejects a data folder that %s", { timeout: 60_000 }, async ([, dataDir, message]) => {
  const server = createServer({ dataDir: dataDir(), port: 0, logLevel: "silent" });
  await expect(server).rejects.toMatchObject({
    code: "PARAM_INVALID",
    message: expect.stringMatching(/^options\.dataDir: Cannot open "/),
  });
  await expect(server).rejects.toThrow(message);
});

test("names the host if no port can be opened there", async () => {
  const dataDir = join(folder, "host");
  // An address for documentation, which no machine has.
  const server = createServer({ dataDir, host: "203.0.113.1", port: 0, logLevel: "silent" });
  await expect(server).rejects.toMatchObject({
    code: "PARAM_INVALID",
    message: 'options.host: "203.0.113.1" is not an address of this machine (EADDRNOTAVAIL)',
  });
});
