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

/** Where the server of server.ts listens. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

const LOCAL = { origin: "https://web-platform.test", host: "web-platform.test", port: "" };

/**
 * In a browser, a relative URL is resolved against the document's. A guest and Node have no document: the test's constructor resolves it.
 */
const SERVED_BEFORE = `
const window = self;
const onServer = (path) => new URL(path, location.href).href;
const fetchResource = (path) => self.fetch(onServer(path)).then((response) => response.text());
if (typeof self.EventSource === "function") self.EventSource = new Proxy(self.EventSource, {
  construct: (target, [url, ...rest], created) =>
    Reflect.construct(target, [URL.canParse(url, location.href) ? onServer(url) : url, ...rest], created),
});
`;

/** The suite's server provides files to its tests. Here `readResource(path)` of a runner does, for URLs without a scheme. */
const before = ({ origin, host, port }: typeof LOCAL): string => `
self.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };
const location = { href: "${origin}/" + TEST.name, origin: "${origin}", protocol: "${origin.replace(/\/.*/, "")}",
  host: "${host}", hostname: "${host.replace(/:.*/, "")}", port: "${port}", pathname: "/" + TEST.path, search: TEST.variant, hash: "",
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

/** Inserts what the suite's server inserts into its files: host names and ports. There is one server, without TLS. */
const insertAddress = (text: string, { host, port }: ServerAddress): string =>
  text.replace(/\{\{ports\[\w+\]\[\d\]\}\}/g, `${port}`).replace(/\{\{[^{}]*\}\}/g, host.replace(/:.*/, ""));

/**
 * Source of a function of `readResource`, which runs in sloppy mode like the suite's scripts.
 *
 * @param server required for tests that are `served`
 */
export function toScript(
  { name, path, variant, scripts, timeoutMs, code, served }: TestFile,
  server?: ServerAddress,
  folder: string = TESTS_FOLDER,
): string {
  const insert = (text: string): string => (served && server !== undefined ? insertAddress(text, server) : text);
  const read = (file: string): string => `\n${insert(readFileSync(file, "utf8"))}\n;`;
  const address =
    server === undefined ? LOCAL : { origin: `http://${server.host}`, host: server.host, port: `${server.port}` };
  const test = JSON.stringify({ name, path: name.replace(/\?.*/, ""), variant, timeoutMs });
  return [
    "async function (readResource) {",
    `const TEST = ${test};`,
    before(served ? address : LOCAL),
    served ? SERVED_BEFORE : "",
    read(join(folder, "resources", "testharness.js")),
    HOOKS,
    // As in a shell: an exception ends the file, and earlier results are kept.
    "let thrown; try {",
    ...scripts.map(read),
    code === undefined ? read(path) : `\n${insert(code)}\n;`,
    "} catch (error) { thrown = { error: String(error).slice(0, 300) }; }",
    "const end = thrown ?? await Promise.race([completed, late]);",
    "return { subtests, ...end };",
    "}",
  ].join("\n");
}
