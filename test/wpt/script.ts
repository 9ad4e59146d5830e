// Builds one function from a test file, for the sandbox and for Node: the suite's harness, required scripts, the file itself, and a
// promise of the outcome of each subtest.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { TESTS_FOLDER, type TestFile } from "./tests.ts";

export interface Subtest {
  readonly name: string;
  readonly passed: boolean;
  readonly message: string;
}

/** Result of a runner's function. An error of the whole file has no subtest. */
export interface FileResult {
  readonly subtests: readonly Subtest[];
  readonly error?: string;
}

/** The suite's server provides files to its tests. Here `readResource(path)` of a runner does, for URLs without a scheme. */
const BEFORE = `
self.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };
const location = { href: "https://web-platform.test/" + TEST.name, origin: "https://web-platform.test", protocol: "https:",
  host: "web-platform.test", hostname: "web-platform.test", port: "", pathname: "/" + TEST.path, search: TEST.variant, hash: "",
  toString() { return this.href; } };
Object.defineProperty(self, "location", { value: location, configurable: true, writable: true });
const isResource = (input) => typeof input === "string" && !/^[a-z][a-z0-9+.-]*:/i.test(input);
const fetch = (input, init) => !isResource(input) ? self.fetch(input, init) : readResource(input).then((text) => ({
  ok: true, status: 200, text: async () => text, json: async () => JSON.parse(text),
  arrayBuffer: async () => new TextEncoder().encode(text).buffer }));
`;

const HOOKS = `
const subtests = [];
const toSubtest = ({ name, status, message }) => ({ name: name.toWellFormed(), passed: status === 0, message: String(message ?? "").slice(0, 300) });
add_result_callback((test) => { subtests.push(toSubtest(test)); });
const completed = new Promise((resolve) => add_completion_callback((tests, status) =>
  resolve(status.status === 0 ? {} : { error: String(status.message).slice(0, 300) })));
const late = new Promise((resolve) => setTimeout(resolve, TEST.timeoutMs, { error: "timed out" }));
`;

/** Source of a function of `readResource`, which runs in sloppy mode like the suite's scripts. */
export function toScript({ name, path, variant, scripts, timeoutMs }: TestFile, folder: string = TESTS_FOLDER): string {
  const read = (file: string): string => `\n${readFileSync(file, "utf8")}\n;`;
  const test = JSON.stringify({ name, path: name.replace(/\?.*/, ""), variant, timeoutMs });
  return [
    "async function (readResource) {",
    `const TEST = ${test};`,
    BEFORE,
    read(join(folder, "resources", "testharness.js")),
    HOOKS,
    // As in a shell: an exception ends the file, and earlier results are kept.
    "let thrown; try {",
    ...scripts.map(read),
    read(path),
    "} catch (error) { thrown = { error: String(error).slice(0, 300) }; }",
    "const end = thrown ?? await Promise.race([completed, late]);",
    "return { subtests, ...end };",
    "}",
  ].join("\n");
}
