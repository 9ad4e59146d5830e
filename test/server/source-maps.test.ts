// Bundles that were uploaded with a source map: logs and errors name the author's files, and a map can name nothing above the tool's folder.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { prepareUpload } from "../../src/cli/remote/upload.ts";
import { ToolError } from "../../src/host/index.ts";
import {
  applySourceMap,
  originalsOf,
  parseUploadedSourceMap,
  toOriginalError,
} from "../../src/server/tools/uploaded-source-map.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
const folder = mkdtempSync(join(tmpdir(), "glovebox-source-maps-"));
afterAll(async () => {
  await stores[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const FILES = {
  "project/tool.ts": `import { split } from "./lib/split.ts";
import { twice } from "pkg";
import { shared } from "../shared/util.ts";

interface Input { readonly text: string }
export default function ({ text }: Input): number {
  console.log("splitting", text);
  return twice(split(text)) + shared;
}
`,
  "project/lib/split.ts": `export function split(text: string): number {
  if (text === "") {
    throw new TypeError("nothing to split");
  }
  return text.length;
}
`,
  "shared/util.ts": "export const shared: number = 1;\n",
  "node_modules/pkg/package.json": '{ "name": "pkg", "version": "1.0.0", "main": "index.js" }',
  "node_modules/pkg/index.js":
    "exports.twice = (n) => {\n  if (n > 50) throw new RangeError('too long');\n  return n * 2;\n};\n",
};
for (const [name, text] of Object.entries(FILES)) {
  mkdirSync(join(folder, name, ".."), { recursive: true });
  writeFileSync(join(folder, name), text);
}

interface Call {
  readonly id: string;
  readonly output: unknown;
  readonly error: { readonly stack?: string; readonly details?: { readonly file?: string; readonly line?: number } };
  readonly logs: readonly object[];
}

describe.for(STORES)("with %s", (kind) => {
  const { api } = useServer(stores, kind, ["acme"]);

  test("logs and errors name the author's lines, and nothing of the author's machine is stored", async () => {
    const upload = await prepareUpload(join(folder, "project"));
    expect(JSON.stringify(upload)).not.toContain(folder);
    expect((await api("POST", "/v1/tenants/acme/tools", { ...upload, name: "mapped" })).status).toBe(201);
    const call = (text: string) => api<Call>("POST", "/v1/tenants/acme/tools/mapped/calls", { input: { text } });
    const done = (await call("abc")).body;
    expect(done.output).toBe(7);
    expect(JSON.stringify(done.logs)).toContain("tool.ts:7:");
    const { error } = (await call("")).body;
    expect(error.details).toMatchObject({ file: "lib/split.ts", line: 3 });
    expect(error.stack).toMatch(/at split \(lib\/split\.ts:3:11\)\n\s+at default \(tool\.ts:8:16\)/);
    // A file of a package is named, and the place in the author's own file is the one that counts.
    const long = (await call("x".repeat(60))).body.error;
    expect(long.stack).toContain("pkg/index.js:2:");
    expect(long.details).toMatchObject({ file: "tool.ts", line: 8 });
    const { body } = await api<{ originals: object }>("GET", "/v1/tenants/acme/tools/mapped/versions/1/source");
    expect(body.originals).toEqual({
      "tool.ts": FILES["project/tool.ts"],
      "lib/split.ts": FILES["project/lib/split.ts"],
      "util.ts": FILES["shared/util.ts"],
    });
    // The same upload is the same version.
    expect((await api("POST", "/v1/tenants/acme/tools", { ...upload, name: "mapped" })).body).toMatchObject({
      isKnown: true,
    });
  });

  test("an error while the tool is loaded names the author's file and line", async () => {
    mkdirSync(join(folder, "throws/lib"), { recursive: true });
    writeFileSync(join(folder, "throws/tool.ts"), 'import "./lib/start.ts";\nexport default (): number => 1;\n');
    writeFileSync(join(folder, "throws/lib/start.ts"), '// First.\n\nthrow new Error("at load");\n');
    const upload = await prepareUpload(join(folder, "throws"));
    const { status, body } = await api<Pick<Call, "error">>("POST", "/v1/tenants/acme/tools", upload);
    expect([status, body.error.details]).toEqual([422, expect.objectContaining({ file: "lib/start.ts", line: 3 })]);
  });

  test("an upload without a map has the places of its bundle, and one with a bad map is rejected", async () => {
    const source = "export default () => { throw new Error('here'); }";
    await api("POST", "/v1/tenants/acme/tools", { name: "plain", source });
    const { error } = (await api<Call>("POST", "/v1/tenants/acme/tools/plain/calls", {})).body;
    expect(error.details).toMatchObject({ line: 1 });
    const bad = await api("POST", "/v1/tenants/acme/tools", { name: "bad", source, sourceMap: '{"version":3}' });
    expect([bad.status, JSON.stringify(bad.body)]).toEqual([422, expect.stringContaining("sourceMap: /sources")]);
  });
});

const map = (change: object): string =>
  JSON.stringify({ version: 3, sources: ["tool.ts"], sourcesContent: ["text"], mappings: "AAAA", ...change });

test.for([
  ["no JSON", "}"],
  ["a list", "[]"],
  ["another version", map({ version: 2 })],
  ["an absolute path", map({ sources: ["/home/user/tool.ts"] })],
  ["a path above the root", map({ sources: ["lib/../../tool.ts"] })],
  ["a path of Windows", map({ sources: ["C:/tool.ts"] })],
  ["a path with backslashes", map({ sources: ["..\\tool.ts"] })],
  ["a URL", map({ sources: ["https://example.com/tool.ts"] })],
  ["a path with a line break", map({ sources: ["tool.ts\nError: forged"] })],
  ["an empty path", map({ sources: [""] })],
  ["a root", map({ sourceRoot: "/home/user" })],
  ["fewer texts than files", map({ sourcesContent: [] })],
  ["a text that is none", map({ sourcesContent: [1] })],
  ["an index map", map({ sections: [] })],
  ["other characters", map({ mappings: "AAAA\u0000" })],
  ["too many mappings", map({ mappings: ";".repeat(500_001) })],
  ["too many files", map({ sources: Array(5_001).fill("a"), sourcesContent: Array(5_001).fill(null) })],
  ["too much text", map({ sourcesContent: ["x".repeat(4 * 1024 * 1024)] })],
] as const)("rejects a map with %s", ([, json]) => {
  expect(() => parseUploadedSourceMap(json)).toThrow(/^sourceMap: /);
});

test("any mappings give a map, or an error that says what is wrong", () => {
  const bundle = map({ sources: ["upload.js"], mappings: "AAAA,IAAI;AACA,CAAC" });
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(..."ABCDgh+/89,;"), maxLength: 200 }),
      fc.array(fc.constantFrom("tool.ts", "lib/a.ts", "node_modules/x/i.js"), { minLength: 1, maxLength: 3 }),
      (mappings, sources) => {
        const json = map({ sources, sourcesContent: sources.map(() => "text"), mappings });
        const uploaded = parseUploadedSourceMap(json);
        expect(Object.keys(originalsOf(uploaded)).length).toBeGreaterThan(0);
        const details = { file: "tool.ts", line: 1, column: 1, problems: [{ file: "tool.ts", line: 1, column: 5 }] };
        const original = toOriginalError(new ToolError("BUNDLE_FAILED", "tool.ts:1:1: no", { details }), uploaded);
        expect(["tool.ts", ...sources]).toContain(original.details?.file);
        expect(original.message).toBe(
          `${original.details?.file}:${original.details?.line}:${original.details?.column}: no`,
        );
        try {
          const applied = JSON.parse(applySourceMap(bundle, uploaded)) as { readonly sources: readonly string[] };
          expect(applied.sources).toEqual(["glovebox/upload.js", ...sources]);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(ToolError);
        }
      },
    ),
    { numRuns: 500 },
  );
});
