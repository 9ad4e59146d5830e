// Commands that write into a folder in which nothing can be created: they end with an error that names the path.
import { expect, test } from "vitest";
import { runCli } from "../../src/cli/cli.ts";
import { storeCredentials } from "../../src/cli/remote/connection.ts";
import { UsageError } from "../../src/cli/usage.ts";
import { createTestIo } from "../support/cli-io.ts";

// Node's recursive mkdir never ends below /proc.
test.runIf(process.platform === "linux")("init ends where no folder can be created", async () => {
  const { io, written } = createTestIo();
  expect(await runCli(["init", "/proc/glovebox/tool"], io)).toBe(2);
  expect(written.stderr).toMatch(/^glovebox: \/proc\/glovebox\/tool cannot be written: ENOENT/);
});

test("login names the file that it cannot write", () => {
  const store = () => storeCredentials({ url: "http://localhost:7070", key: "k" }, { HOME: "/dev/null" });
  expect(store).toThrow(UsageError);
  expect(store).toThrow("/dev/null/.config/glovebox/credentials.json cannot be written: ENOTDIR");
});
