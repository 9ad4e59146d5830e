// Tests what is bundled for packages whose files cannot run in a sandbox as they are. The packages themselves are compared with Node by
// test/npm/run.ts.
import { describe, expect, test } from "vitest";
import { buildHere, evaluate, makeFolder, packageFiles } from "./workbench.ts";

/** What pdf.js does when it is imported, and when it reads a document. */
const PDF = `const SCALE = new DOMMatrix();
export const findWorker = () => globalThis.pdfjsWorker?.WorkerMessageHandler.name;
export const scaleOf = () => typeof SCALE.a;`;
const worker = (name: string) => `export class WorkerMessageHandler { static name = "${name}" }`;

const STORE = packageFiles(
  "pdfjs-dist",
  {
    "build/pdf.mjs": PDF,
    "build/pdf.worker.mjs": worker("worker"),
    "legacy/build/pdf.min.mjs": PDF,
    "legacy/build/pdf.worker.min.mjs": worker("small worker"),
  },
  { main: "build/pdf.mjs" },
);

const findWorker = async (specifier: string) => {
  const source = `import { findWorker, scaleOf } from "${specifier}"; export default [findWorker(), scaleOf()];`;
  return (await evaluate(await buildHere({ source }, { root: makeFolder(STORE) }))).value;
};

test("pdf.js has its worker, without the worker's name at run time", async () => {
  expect(await findWorker("pdfjs-dist")).toEqual(["worker", "undefined"]);
  expect(await findWorker("pdfjs-dist/legacy/build/pdf.min.mjs")).toEqual(["small worker", "undefined"]);
});

describe("moment", () => {
  const MOMENT = `var locales = { en: "Monday" };
module.exports = function (name) {
  if (locales[name] === undefined) {
    try {
      var aliasedRequire = require;
      aliasedRequire('./locale/' + name);
    } catch (e) {
      locales[name] = null;
    }
  }
  return locales[name] || locales.en;
};
module.exports.defineLocale = function (name, day) { locales[name] = day; };`;
  const LOCALE = "require('../moment').defineLocale('de', 'Montag');";
  const settings = () => ({
    root: makeFolder(packageFiles("moment", { "moment.js": MOMENT, "locale/de.js": LOCALE }, { main: "./moment.js" })),
  });

  test("has its locales for a tool that names one", async () => {
    const source = 'import locale from "moment"; export default [locale("de"), locale("xx")];';
    expect((await evaluate(await buildHere({ source }, settings()))).value).toEqual(["Montag", "Monday"]);
  });

  test("is bundled without its locales for a tool that names none", async () => {
    const { code } = await buildHere({ source: 'import day from "moment"; export default day("en");' }, settings());
    expect(code).not.toContain("Montag");
  });
});

test("pdf.js uses a DOMMatrix that the tool has defined", async () => {
  const root = makeFolder({
    ...STORE,
    ...packageFiles("matrix", { "index.js": "globalThis.DOMMatrix = class { a = 1 }" }),
  });
  const source = 'import "matrix"; import { scaleOf } from "pdfjs-dist"; export default scaleOf();';
  expect((await evaluate(await buildHere({ source }, { root }))).value).toBe("number");
});
