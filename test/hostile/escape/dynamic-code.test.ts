// Attack: use dynamic code, which tools have by default, to reach more than the tool's own code can: the prelude's scope and
// frames, the bundle's wrapper, modules, and the names of internal scripts.
import { describe, expect, test } from "vitest";
import { openGuest, runGuest } from "../../support/guest.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ON = { features: ["stringToCode"] } as const;

describe("Dynamic code", () => {
  test.for<[name: string, code: string]>([
    ["import() of a module of Node", "import('node:fs')"],
    ["import() of a file", "import('/etc/hostname')"],
    ["import() of data", "import('data:text/javascript,export default 42')"],
    ["import() of our own script", "import('glovebox:///prelude.js')"],
    ["import() of a value that is not text", "import(Symbol())"],
    ["import() with attributes", "import('./x.json', { with: { type: 'json' } })"],
  ])("gets a rejected promise for %s, by every constructor", async ([, code]) => {
    const end = await runGuest(
      `async () => {
        const Async = (async () => {}).constructor;
        const Generator = (function* () {}).constructor;
        const AsyncGenerator = (async function* () {}).constructor;
        const text = ${JSON.stringify(code)};
        const makers = [
          () => eval(text), () => (0, eval)(text), () => new Function("return " + text)(), () => Async("return await " + text)(),
          () => Generator("yield " + text)().next().value, () => AsyncGenerator("yield await " + text)().next(),
          () => new Promise((done, fail) => setTimeout(() => eval(text).then(done, fail), 0)),
        ];
        const ends = [];
        for (const make of makers) {
          let promise;
          try { promise = make(); } catch (error) { ends.push("threw " + error.name); continue; }
          ends.push(promise instanceof Promise ? await promise.then(() => "loaded", (error) => error instanceof Error ? "rejected" : "stranger") : "no promise");
        }
        return ends;
      }`,
      ON,
    );
    expect(end).toMatchObject({ outcome: "output", value: Array.from({ length: 7 }, () => "rejected") });
  });

  test.for<[name: string, code: string]>([
    ["import.meta", "import.meta"],
    ["an import declaration", "import fs from 'fs'"],
    ["an export", "export default 1"],
    ["V8's natives", "%DebugPrint(1)"],
  ])("has no %s", async ([, code]) => {
    const end = await runGuest(
      `() => [() => eval(${JSON.stringify(code)}), () => Function(${JSON.stringify(code)})].map((run) => { try { run(); return "ran"; } catch (error) { return error.name; } })`,
      ON,
    );
    expect(end.value).toEqual(["SyntaxError", "SyntaxError"]);
  });

  test("sees no name of the prelude, nor of the wrapper around a bundle", async () => {
    await using glovebox = await makeGlovebox({ engine: {} });
    const names = [
      "lockDown",
      "callState",
      "boot",
      "enter",
      "post",
      "ask",
      "loaded",
      "compiled",
      "evaluate",
      "usePlatformModule",
      "secure",
    ];
    const source = `export default () => ${JSON.stringify([...names, "register", "useBuiltin", "arguments", "require", "module", "exports"])}.flatMap((name) =>
      [() => eval("typeof " + name), () => (0, eval)("typeof " + name), () => Function("return typeof " + name)()].map((run) => { try { return run(); } catch (error) { return "undefined"; } }))`;
    await glovebox.addTool({ name: "names", source });
    const types = outputOf(await glovebox.execute({ id: "c", toolName: "names" })) as readonly string[];
    // A function has its own arguments, an arrow function does not.
    expect(types.filter((type) => type !== "undefined")).toEqual(["object"]);
  });

  test("dynamic code in sloppy mode sees this realm's global object, and no caller of ours", async () => {
    const end = await runGuest(
      `async (input, ctx) => {
        const callers = [];
        globalThis.note = (at) => { callers.push(at === null || at === undefined ? "none" : /postToHost|callState|ReflectApply|MapPrototype/.test(String(at).slice(0, 2000)) ? "the prelude" : "the guest"); };
        const look = Function("var at = arguments.callee; for (var n = 0; n < 20; n += 1) { try { at = at.caller; } catch (error) { note(null); return 1; } note(at); if (at == null) return 1; } return 1;");
        const uses = [
          () => look(), () => [1].map(look), () => JSON.stringify({ toJSON: look }), () => console.log({ get [Symbol.toStringTag]() { return look() } }),
          () => ctx.progress({ get progress() { return look() } }), () => ctx.kv({ toJSON: look }), () => setTimeout(() => {}, { valueOf: look }),
          () => new URL({ toString: look }), () => new TextEncoder().encode({ toString: look }), () => structuredClone({ get x() { return look() } }),
        ];
        for (const use of uses) { try { await use(); } catch {} }
        await new Promise((done) => setTimeout(Function("done", "look", "return function () { look(); done(); }")(done, look), 0));
        return { prelude: callers.includes("the prelude"), looked: callers.length > 10, global: Function("return this")() === globalThis };
      }`,
      { ...ON, header: { granted: ["kv"] } },
    );
    expect(end.value).toEqual({ prelude: false, looked: true, global: true });
  });

  test("cannot pass for a script of ours in an error's place", async () => {
    await using glovebox = await makeGlovebox({ engine: {} });
    const names = ["glovebox:///prelude.js", "glovebox:///tool.js", "file:///etc/passwd", "node:internal/process"];
    const source = `export default ({ name }) => {
      eval("(() => { throw new RangeError('mine'); })\\n//# sourceURL=" + name + "\\n//# sourceMappingURL=http://127.0.0.1:9/map")();
    };`;
    await glovebox.addTool({ name: "named", source });
    for (const name of names) {
      const error = errorOf(await glovebox.execute({ id: "c", toolName: "named", arguments: { name } }));
      expect(error).toMatchObject({ code: "TOOL_FAILED", message: "mine", details: { errorName: "RangeError" } });
      expect(JSON.stringify(error)).not.toMatch(/\/src\/sandbox|worker\.mjs|node_modules/);
    }
  });

  test("cannot change what the prelude does with an output, in this call or in the next of a warm isolate", async () => {
    await using tool = await openGuest(
      `() => {
        (0, eval)("var JSON = { stringify: () => '1' }; var Promise = null; var Array = null; function Object() { throw 1; }");
        Function("Object.prototype.toJSON = () => 'forged'; Function.prototype.call = null; Function.prototype.apply = null;")();
        delete Object.prototype.toJSON;
        return { honest: true };
      }`,
      ON,
    );
    for (let call = 0; call < 2; call += 1) {
      const end = await tool.call();
      expect([end.outcome, call === 0 ? end.text : ""]).toEqual([
        call === 0 ? "output" : end.outcome,
        call === 0 ? '{"honest":true}' : "",
      ]);
    }
  });

  test("dynamic code that nests deeper than the parser's stack is an error of the tool's own", async () => {
    const end = await runGuest(
      `() => ["(", "[", "{a:", "a=>", "-", String.fromCharCode(96, 36, 123), "if(1)"].map((part) => { try { eval(part.repeat(200_000)); return "ran"; } catch (error) { return error.name; } })`,
      { ...ON, memoryMiB: 128 },
    );
    expect(end.outcome).toBe("output");
    for (const name of end.value as readonly string[]) expect(name).toMatch(/^(RangeError|SyntaxError)$/);
  });

  test("has the globals that Node's has", async () => {
    const end = await runGuest(
      `() => ["Buffer", "process", "setTimeout", "setImmediate", "queueMicrotask", "structuredClone", "URL", "console", "globalThis", "self"]
        .map((name) => [name, Function("return typeof " + name)() !== "undefined"])`,
      ON,
    );
    expect((end.value as readonly [string, boolean][]).filter(([, has]) => !has).map(([name]) => name)).toEqual([]);
  });
});
