// Generates random programs of async functions that record the stores of an AsyncLocalStorage, as text: all combinations of awaiting,
// failing and changing the store.
import * as fc from "fast-check";

const waits = [
  "await null;",
  "await later();",
  "await Promise.resolve(1);",
  "await Promise.all([null, later()]);",
  "await new Promise((resolve) => queueMicrotask(resolve));",
  "await { then(done) { see('then'); done(); } };",
  "await Promise.reject(1).catch(() => see('rejected'));",
  "for await (const x of [1, later()]) see('item');",
  "for await (const x of count(3)) see(x);",
  "for await (const x of count(3)) { if (x === 1) break; see(x); }",
  "for await (const x of relay(2)) see(x);",
];
const marks = ["see('mark');", "als.enterWith('e' + ++changes);"];

const { statement } = fc.letrec<{ statement: string; block: string }>((tie) => ({
  statement: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(...marks, ...waits),
    tie("block").map((body) => `await als.run('r' + ++changes, async () => { ${body} });`),
    tie("block").map((body) => `await (async () => { ${body} })();`),
    tie("block").map((body) => `flows.push(als.run('f' + ++changes, async () => { ${body} }));`),
    tie("block").map((body) => `als.exit(() => { see('out'); }); await als.exit(async () => { ${body} });`),
    fc
      .tuple(tie("block"), tie("block"))
      .map(
        ([body, rescue]) =>
          `try { ${body} await fail(); } catch { see('caught'); ${rescue} } finally { see('finally'); }`,
      ),
    tie("block").map((body) => `for (let i = 0; i < 2; i += 1) { ${body} }`),
    tie("block").map((body) => `flows.push(Promise.resolve().then(async () => { ${body} }));`),
    tie("block").map((body) => `await new Promise((done) => setTimeout(async () => { ${body} done(); }, 1));`),
  ),
  block: fc.array(tie("statement"), { minLength: 1, maxLength: 4 }).map((all) => `${all.join(" ")} see('end');`),
}));

export const arbitraryProgram: fc.Arbitrary<string> = fc
  .array(statement, { minLength: 1, maxLength: 5 })
  .map((all) => all.join("\n"));

const PROGRAM_HEAD = `
  const als = new AsyncLocalStorage();
  const seen = [], flows = [];
  let changes = 0;
  const see = (what) => void seen.push(what + ":" + (als.getStore() ?? "-"));
  const later = () => new Promise((resolve) => setTimeout(resolve, 1));
  const fail = async () => { await null; see("failing"); throw new Error("x"); };
  async function* count(n) {
    try { for (let i = 0; i < n; i += 1) { see("count"); yield i; await null; } } finally { see("counted"); }
  }
  async function* relay(n) { see("relay"); yield* count(n); see("relayed"); }`;

/** Runs a program. Returns the stores that it has seen, in order. */
export const programText = (program: string): string =>
  `async () => {${PROGRAM_HEAD}\n${program}\nsee("end"); while (flows.length > 0) await flows.shift(); see("over"); return seen.slice(); }`;
