// Sources of the master key: a file, a variable, an option and a command.
import { randomBytes } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { createServer, type ServerOptions } from "../../src/server/index.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const KEY = randomBytes(32).toString("base64");
const printing = (text: string): string[] => [process.execPath, "-e", `console.log(${JSON.stringify(text)})`];
const store = await stores.create("sqlite");
const open = async (options: ServerOptions): Promise<void> => {
  await using _ = await createServer({ ...store.options, port: 0, logLevel: "silent", ...options });
};

test("the output of a command is the master key", async () => {
  await open({ masterKeyCommand: printing(KEY) });
  await open({ masterKey: KEY });
  await expect(open({ masterKeyCommand: printing(randomBytes(32).toString("base64")) })).rejects.toThrow(
    "is not the one that this database's secrets are encrypted with",
  );
});

test.for<readonly [string, ServerOptions, string]>([
  ["prints no key", { masterKeyCommand: printing("no key") }, "options.masterKeyCommand: Expected 32 bytes"],
  [
    "fails",
    { masterKeyCommand: [process.execPath, "-e", "console.log('hidden'); process.exit(3)"] },
    "options.masterKeyCommand: The command failed (3)",
  ],
  ["does not exist", { masterKeyCommand: ["glovebox-no-such-program"] }, "The command failed (ENOENT)"],
  ["is not the only source", { masterKeyCommand: printing(KEY), masterKey: KEY }, "Expected one of masterKey"],
])("a command that %s is an error, without what it printed", async ([, options, message]) => {
  const error = await open(options).then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  expect(error?.message).toContain(message);
  expect(JSON.stringify([error?.message, error?.stack, error?.cause])).not.toContain("hidden");
});
