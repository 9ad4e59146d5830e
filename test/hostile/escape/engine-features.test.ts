// Attack: use an engine feature that was not granted. Each feature is absent by every path, and a granted feature enables no other.
import { describe, expect, test } from "vitest";
import { ENGINE_FEATURE_NAMES, type EngineFeature } from "../../../src/sandbox/contract/engine-features.ts";
import { runGuest } from "../../support/guest.ts";
import { GUEST_GLOBALS } from "./globals.ts";
import { REACH, ROOTS } from "./reach.ts";

const EMPTY_MODULE = "new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])";

/** Expressions that are true where a guest has the feature. */
const POWERS: { readonly [Name in EngineFeature]: readonly string[] } = {
  webAssembly: [
    `new WebAssembly.Module(${EMPTY_MODULE}) instanceof WebAssembly.Module`,
    `await WebAssembly.compile(${EMPTY_MODULE}) instanceof WebAssembly.Module`,
    `(await WebAssembly.instantiate(${EMPTY_MODULE})).instance instanceof WebAssembly.Instance`,
    "new WebAssembly.Memory({ initial: 1 }).buffer.byteLength === 65536",
    `globalThis["Web" + "Assembly"].validate(${EMPTY_MODULE})`,
    `self.WebAssembly.validate(${EMPTY_MODULE})`,
    `Reflect.get(globalThis, "WebAssembly").validate(${EMPTY_MODULE})`,
    `Object.getOwnPropertyDescriptor(globalThis, "WebAssembly").value.validate(${EMPTY_MODULE})`,
    `(function () { return this; })().WebAssembly.validate(${EMPTY_MODULE})`,
  ],
  sharedArrayBuffer: [
    "new SharedArrayBuffer(8).byteLength === 8",
    "new globalThis.SharedArrayBuffer(8).byteLength === 8",
    "Reflect.construct(Reflect.get(self, 'SharedArrayBuffer'), [8]).byteLength === 8",
    "new (class extends SharedArrayBuffer {})(8).byteLength === 8",
    "new Uint8Array(new SharedArrayBuffer(8)).buffer.constructor === SharedArrayBuffer",
  ],
  atomics: [
    "Atomics.add(new Int32Array(1), 0, 1) === 0",
    "globalThis.Atomics.load(new Int32Array(1), 0) === 0",
    "Reflect.get(self, 'Atomics').isLockFree(4)",
  ],
  resizableBuffers: [
    "new ArrayBuffer(1, { maxByteLength: 8 }).resizable",
    "((b) => (b.resize(8), b.byteLength === 8))(new ArrayBuffer(1, { maxByteLength: 8 }))",
    "new ArrayBuffer.prototype.constructor(1, { maxByteLength: 8 }).resizable",
  ],
  stringToCode: [
    "eval('true')",
    "(0, eval)('true')",
    "Function('return true')()",
    "new Function('a', 'return a')(true)",
    "(() => {}).constructor('return true')()",
    "await (async () => {}).constructor('return true')()",
    "(function* () {}).constructor('return true')().next().value",
    "(await (async function* () {}).constructor('return true')().next()).value",
  ],
};
const GLOBALS: { readonly [Name in EngineFeature]?: string } = {
  webAssembly: "WebAssembly",
  sharedArrayBuffer: "SharedArrayBuffer",
  atomics: "Atomics",
};
const attempt = (expression: string): string =>
  `await (async () => { try { return await (${expression}); } catch (error) { return error.name; } })()`;

/** Evaluates each expression in one guest that has these features. */
async function valuesOf(
  features: readonly EngineFeature[],
  expressions: readonly string[],
): Promise<readonly unknown[]> {
  const end = await runGuest(`async () => [${expressions.map(attempt).join(", ")}]`, { features });
  expect(end).toMatchObject({ outcome: "output" });
  return end.value as readonly unknown[];
}

const without = (name: EngineFeature): EngineFeature[] => ENGINE_FEATURE_NAMES.filter((other) => other !== name);
const nothing = expect.stringMatching(/^(ReferenceError|TypeError|EvalError)$/);
const absent = (expressions: readonly string[]): readonly unknown[] =>
  expressions.map(() => expect.toSatisfy((got) => got === false || nothing.asymmetricMatch(got)));

describe("An engine feature", () => {
  test.for(ENGINE_FEATURE_NAMES)("%s is absent by every path when nothing is granted", async (name) => {
    expect(await valuesOf([], POWERS[name])).toEqual(absent(POWERS[name]));
  });

  test.for(ENGINE_FEATURE_NAMES)("%s is absent by every path when all the others are granted", async (name) => {
    expect(await valuesOf(without(name), POWERS[name])).toEqual(absent(POWERS[name]));
  });

  test.for(ENGINE_FEATURE_NAMES)("%s works when it alone is granted, and brings no other", async (name) => {
    expect(await valuesOf([name], POWERS[name])).toEqual(POWERS[name].map(() => true));
    for (const other of without(name)) {
      expect([other, await valuesOf([name], POWERS[other])]).toEqual([other, absent(POWERS[other])]);
    }
  });

  test.for(ENGINE_FEATURE_NAMES)("%s adds its own global and no other", async (name) => {
    const end = await runGuest("() => Object.getOwnPropertyNames(globalThis).sort()", { features: [name] });
    const inherited = new Set(["constructor"]);
    const expected = GUEST_GLOBALS.filter((global) => !inherited.has(global));
    const own = (end.value as readonly string[]).filter((global) => !inherited.has(global));
    expect(own).toEqual([...expected, ...(GLOBALS[name] === undefined ? [] : [GLOBALS[name]])].sort());
  });

  test.for<readonly EngineFeature[]>([[], ["webAssembly"], ["sharedArrayBuffer"], ["atomics"], ["resizableBuffers"]])(
    "with %j granted, nothing that can be reached is any other one's",
    async (features) => {
      const roots = features.includes("webAssembly")
        ? `[...${ROOTS}, new WebAssembly.Memory({ initial: 1 }), new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true }), new WebAssembly.Instance(new WebAssembly.Module(${EMPTY_MODULE}))]`
        : ROOTS;
      const end = await runGuest(
        `() => {
          ${REACH}
          const all = reach(${roots});
          const tags = all.map((item) => Object.prototype.toString.call(item).slice(8, -1));
          const made = (run) => all.filter((item) => typeof item === "function" && !/^(set|clear|queue)/.test(item.name)).flatMap((item) => {
            try { return run(item) ? [item.name] : []; } catch { return []; }
          });
          return {
            size: all.length,
            webAssembly: tags.includes("WebAssembly") || all.some((item) => typeof item === "function" && item.name === "Memory"),
            atomics: tags.includes("Atomics"),
            sharedArrayBuffer: made((item) => Object.prototype.toString.call(new item(8)) === "[object SharedArrayBuffer]").length > 0,
            resizableBuffers: made((item) => new item(8, { maxByteLength: 16 }).resizable === true).length > 0
              || all.some((item) => typeof item === "function" && (item.name === "resize" || item.name === "grow" && item.length === 1 && !("Memory" in (globalThis.WebAssembly ?? {})))),
            stringToCode: made((item) => new item("return 42")() === 42).length > 0,
          };
        }`,
        { features },
      );
      const { size, ...found } = end.value as { readonly [name: string]: unknown };
      expect(Number(size)).toBeGreaterThan(800);
      const expected = Object.fromEntries(ENGINE_FEATURE_NAMES.map((name) => [name, features.includes(name)]));
      expect(found).toEqual(expected);
    },
  );
});

/** Shared buffers that would grow, or that lead to a constructor of such buffers. */
describe("A shared buffer, without resizableBuffers,", () => {
  test.for<[name: string, buffer: string]>([
    ["the constructor", "new SharedArrayBuffer(8, { maxByteLength: 1e6 })"],
    ["the prototype's constructor", "new SharedArrayBuffer.prototype.constructor(8, { maxByteLength: 1e6 })"],
    ["the species", "new SharedArrayBuffer[Symbol.species](8, { maxByteLength: 1e6 })"],
    ["a subclass", "new (class extends SharedArrayBuffer { constructor() { super(8, { maxByteLength: 1e6 }); } })()"],
    ["another new.target", "Reflect.construct(SharedArrayBuffer, [8, { maxByteLength: 1e6 }], Object)"],
    ["a slice", "new SharedArrayBuffer(8).slice(0, 8)"],
  ])("does not grow, made by %s", async ([, buffer]) => {
    const end = await runGuest(
      `() => { const real = Object.setPrototypeOf(${buffer}, SharedArrayBuffer.prototype); return [real.growable, typeof real.grow]; }`,
      { features: ["sharedArrayBuffer"] },
    );
    expect(end).toMatchObject({ outcome: "output", value: [false, "undefined"] });
  });

  test("a buffer of a WebAssembly memory leads to no constructor", async () => {
    const end = await runGuest(
      `() => {
        const { buffer } = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true });
        return [Object.prototype.toString.call(buffer), buffer.constructor === Object, typeof buffer.grow, buffer.slice(0, 4).constructor === Object];
      }`,
      { features: ["webAssembly"] },
    );
    expect(end.value).toEqual(["[object SharedArrayBuffer]", true, "undefined", true]);
  });

  test("a buffer of a WebAssembly memory is not resizable either", async () => {
    const end = await runGuest(
      `() => {
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 2 });
        return [typeof memory.toResizableBuffer, memory.buffer.resizable, typeof memory.buffer.resize, memory.buffer.constructor === ArrayBuffer, memory.grow(1)];
      }`,
      { features: ["webAssembly"] },
    );
    expect(end.value).toEqual(["undefined", false, "undefined", true, 1]);
  });
});

describe("stringToCode", () => {
  test("is named by the error, so that an author knows which feature to request", async () => {
    const attempts = ["eval('1')", "Function('1')", "(async () => {}).constructor('1')"];
    const end = await runGuest(
      `() => [${attempts.map((text) => `(() => { try { ${text} } catch (error) { return [error.name, error.message]; } })()`).join(", ")}]`,
      { features: [] },
    );
    const message =
      "eval and Function are turned off in this sandbox; the host can grant stringToCode, or set engine.dynamicCode to true";
    expect(end.value).toEqual(attempts.map(() => ["EvalError", message]));
  });

  test.for<[name: string, attempt: string]>([
    ["a Node module", "eval(\"import('node:fs')\")"],
    ["a file", "new Function(\"return import('/etc/hostname')\")()"],
    ["data", "eval(\"import('data:text/javascript,export default 42')\")"],
    ["require", "eval(\"require('node:fs')\")"],
    ["a binding of Node's process", "(0, eval)('process').binding('fs')"],
    ["V8's natives", "Function('%SystemBreak()')()"],
    ["a variable of the prelude", "eval('lockDown')"],
    ["another of the prelude, indirectly", "(0, eval)('callState')"],
  ])("gives code no more than the tool has: not %s", async ([, code]) => {
    const [got] = await valuesOf(["stringToCode"], [code]);
    expect(got).toMatch(/^(ReferenceError|TypeError|SyntaxError|Error)$/);
  });

  test("leaves the prelude whole: outputs cannot be forged by what is made from text", async () => {
    const end = await runGuest(
      `() => { new Function("JSON.stringify = () => '\\"forged\\"'; Array.prototype[Symbol.iterator] = null;")(); return { honest: true }; }`,
      { features: ["stringToCode"] },
    );
    expect(end.text).toBe('{"honest":true}');
  });
});

describe("structuredClone()", () => {
  test.for<[name: string, value: string]>([
    ["a shared buffer", "new SharedArrayBuffer(8)"],
    ["a view of a shared buffer", "new Uint8Array(new SharedArrayBuffer(8))"],
    ["a DataView of a shared buffer", "new DataView(new SharedArrayBuffer(8))"],
    ["a module", `new WebAssembly.Module(${EMPTY_MODULE})`],
    ["a memory", "new WebAssembly.Memory({ initial: 1 })"],
  ])("rejects %s instead of returning an empty object", async ([, value]) => {
    const end = await runGuest(
      `() => { try { return structuredClone(${value}); } catch (error) { return error.name; } }`,
      {
        features: ["sharedArrayBuffer", "webAssembly"],
      },
    );
    expect(end.value).toBe("DataCloneError");
  });
});
