// Engine features and the coarse clock through the public API: how a host grants them, and what a tool observes.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ENGINE_FEATURE_NAMES } from "../../../src/sandbox/contract/engine-features.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const EMPTY_MODULE = "new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])";
/** Reports its features: at its top level in its description, in a call in its output. */
const SOURCE = `
  const powers = () => [
    typeof WebAssembly === "object" && "webAssembly", typeof SharedArrayBuffer === "function" && "sharedArrayBuffer",
    typeof Atomics === "object" && "atomics", new ArrayBuffer(1, { maxByteLength: 2 }).resizable && "resizableBuffers",
    (() => { try { return (0, eval)("true"); } catch { return false; } })() && "stringToCode",
  ].filter((name) => name !== false);
  export const description = powers().join();
  export const capabilities = { webAssembly: true, stringToCode: true };
  export default ({ members }, ctx) => (members ? Object.keys(ctx).sort() : powers());`;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ workers: { max: 6 }, engine: { dynamicCode: false } });
});
afterAll(() => glovebox.close());

const run = (toolName: string, args: JsonValue = {}, context: CallContext = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, context);

describe("an engine feature", () => {
  test("is not given to a tool that only requests it", async () => {
    const { description, capabilities } = await glovebox.addTool({ name: "asks", source: SOURCE });
    expect([description, capabilities]).toEqual(["", { webAssembly: true, stringToCode: true }]);
    expect(outputOf(await run("asks"))).toEqual([]);
  });

  test("a feature that was requested but not granted fails the call that uses it with an error that names the grant", async () => {
    const source = `export const capabilities = { webAssembly: true }; export default () => WebAssembly.validate(${EMPTY_MODULE})`;
    await glovebox.addTool({ name: "touches", source });
    const error = errorOf(await run("touches"));
    expect(error).toMatchObject({
      code: "CAPABILITY_DENIED",
      message:
        'WebAssembly is not granted to this tool; request it with capabilities: { webAssembly: true } and let the host grant it (grant: ["webAssembly"])',
    });
    expect(error.details).toMatchObject({ capability: "webAssembly" });
  });

  test("a feature that is not granted can be looked for, and its error can be caught", async () => {
    const source = `export default () => { try { return Atomics; } catch (error) { return [error.name, typeof WebAssembly]; } }`;
    await glovebox.addTool({ name: "looks", source });
    expect(outputOf(await run("looks"))).toEqual(["ReferenceError", "undefined"]);
  });

  test.for(ENGINE_FEATURE_NAMES)(
    "%s is granted by addTool's grant, for the calls and for the top level",
    async (name) => {
      const { description } = await glovebox.addTool({ name: `granted-${name}`, source: SOURCE }, { grant: [name] });
      expect([description, outputOf(await run(`granted-${name}`))]).toEqual([name, [name]]);
    },
  );

  test("is granted by the definition that a host supplies", async () => {
    const definition = { capabilities: { atomics: true, webAssembly: true } };
    await glovebox.addTool({ name: "defined", source: SOURCE, overrides: definition }, { grant: ["atomics"] });
    expect(outputOf(await run("defined"))).toEqual(["webAssembly", "atomics"]);
  });

  test("is not a member of ctx, granted or not", async () => {
    await glovebox.addTool({ name: "members", source: SOURCE }, { grant: ["webAssembly"] });
    const members = ["callId", "log", "progress", "signal", "span", "tenantId"];
    expect(outputOf(await run("members", { members: true }))).toEqual(members);
    expect(outputOf(await run("asks", { members: true }))).toEqual(members);
  });

  test("belongs to one tool, also in warm isolates", async () => {
    const options = { isolateLifetime: "tool" as const };
    await glovebox.addTool({ name: "with", source: SOURCE }, { ...options, grant: ["atomics", "sharedArrayBuffer"] });
    await glovebox.addTool({ name: "without", source: SOURCE }, options);
    const context = {};
    for (let round = 0; round < 3; round += 1) {
      expect(outputOf(await run("with", {}, context))).toEqual(["sharedArrayBuffer", "atomics"]);
      expect(outputOf(await run("without", {}, context))).toEqual([]);
    }
  });

  test("is visible to inspectTool", async () => {
    const { definition } = await glovebox.inspectTool({ source: SOURCE }, { grant: ["stringToCode"] });
    expect(definition.description).toBe("stringToCode");
  });

  test("is part of the key of a cached definition", async () => {
    const descriptions: string[] = [];
    for (const [index, grant] of [
      [],
      ["webAssembly"],
      ["atomics", "webAssembly"],
      ["webAssembly", "atomics"],
      [],
    ].entries()) {
      descriptions.push((await glovebox.addTool({ name: `cached-${index}`, source: SOURCE }, { grant })).description);
    }
    expect(descriptions).toEqual(["", "webAssembly", "webAssembly,atomics", "webAssembly,atomics", ""]);
  });

  test.for(ENGINE_FEATURE_NAMES)("%s cannot be the name of a capability", (name) => {
    const define = (): unknown => defineCapability({ name, inputSchema: {}, outputSchema: {}, handler: () => null });
    expect(define).toThrow(/except callId, .*webAssembly.*stringToCode and members of Object\.prototype; got "/);
  });

  test("compiles and runs WebAssembly, also asynchronously, in a worker", async () => {
    // (module (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
    const module =
      "0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11";
    const source = `
      const bytes = new Uint8Array([${module}]);
      const compiled = await WebAssembly.compile(bytes);
      export default async ({ a, b }) => {
        const first = await WebAssembly.instantiate(compiled);
        const { instance } = await WebAssembly.instantiate(bytes);
        return [first.exports.add(a, b), instance.exports.add(b, b), new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.add(a, a)];
      };`;
    await glovebox.addTool({ name: "sum", source }, { grant: ["webAssembly"] });
    expect(outputOf(await run("sum", { a: 40, b: 2 }))).toEqual([42, 4, 80]);
  });

  test("traps in WebAssembly are errors of the tool, and its process stays alive", async () => {
    // (module (memory 1) (func (export "f") (result i32) (i32.load (i32.const 0x1000000))))
    const module =
      "0,97,115,109,1,0,0,0,1,5,1,96,0,1,127,3,2,1,0,5,3,1,0,1,7,5,1,1,102,0,0,10,12,1,10,0,65,128,128,128,8,40,2,0,11";
    const source = `export default async () => (await WebAssembly.instantiate(new Uint8Array([${module}]))).instance.exports.f();`;
    await glovebox.addTool({ name: "trap", source }, { grant: ["webAssembly"] });
    expect(errorOf(await run("trap"))).toMatchObject({ code: "TOOL_FAILED", message: "memory access out of bounds" });
    const pids = glovebox.workerPids;
    expect(errorOf(await run("trap")).code).toBe("TOOL_FAILED");
    // Another one can end meanwhile because it is not needed, but no new one has started.
    expect(glovebox.workerPids.filter((pid) => !pids.includes(pid))).toEqual([]);
  });
});

describe("createGlovebox({ engine: { dynamicCode } })", () => {
  const DYNAMIC = `
    const attempts = {
      eval: () => (0, eval)("6 * 7"),
      direct: () => { const six = 6; return eval("six * 7"); },
      Function: () => new Function("a", "return a * 7")(6),
      constructor: () => (() => {}).constructor("return 42")(),
    };
    const results = () => Object.entries(attempts).map(([name, run]) => { try { return run(); } catch (error) { return error.name; } });
    export const description = results().join();
    export default async () => [...results(), await (async () => {}).constructor("return 42")().catch?.((error) => error.name)];`;
  const FORTY_TWO = [42, 42, 42, 42, 42];

  test("is true by default: tools with any isolation, their top levels and sessions have eval and Function", async () => {
    await using open = await makeGlovebox({ engine: {} });
    for (const isolateLifetime of ["call", "tool"] as const) {
      const { description } = await open.addTool({ name: isolateLifetime, source: DYNAMIC }, { isolateLifetime });
      expect(description).toBe("42,42,42,42");
      for (let round = 0; round < 3; round += 1) {
        expect(outputOf(await open.execute({ id: "c", toolName: isolateLifetime }))).toEqual(FORTY_TWO);
      }
    }
    await using session = await open.openSession();
    expect(outputOf(await session.run("eval('6 * 7') + Function('return 1')()"))).toBe(43);
  });

  test("is true by default for scripts as well", async () => {
    await using open = await makeGlovebox({ engine: {} });
    await open.addTool({ name: "script", mode: "script", source: "with (input) { eval('var b = a * 2'); } b" });
    expect(outputOf(await open.execute({ id: "c", toolName: "script", arguments: { a: 21 } }))).toBe(42);
  });

  test("dynamicCode: false disables eval and Function, with an error that names the grant and the option", async () => {
    await glovebox.addTool({ name: "off", source: "export default () => eval('1')" });
    const { code, message, details } = errorOf(await run("off"));
    expect([code, message]).toEqual([
      "TOOL_FAILED",
      "eval and Function are turned off in this sandbox; the host can grant stringToCode, or set engine.dynamicCode to true",
    ]);
    expect(details).toMatchObject({ errorName: "EvalError" });
    await using session = await glovebox.openSession();
    expect(errorOf(await session.run("Function('1')")).message).toContain("engine.dynamicCode");
  });

  test("false still allows the grant: to one tool, to one session, and to no other", async () => {
    await glovebox.addTool({ name: "granted", source: DYNAMIC }, { grant: ["stringToCode"] });
    await glovebox.addTool({ name: "neighbour", source: `${DYNAMIC} // its own` });
    expect(outputOf(await run("granted"))).toEqual(FORTY_TWO);
    await using session = await glovebox.openSession({ grant: ["stringToCode"] });
    expect(outputOf(await session.run("eval('42')"))).toBe(42);
    await using other = await glovebox.openSession();
    expect(errorOf(await other.run("eval('42')")).details).toMatchObject({ errorName: "EvalError" });
    await glovebox.addTool({
      name: "caught",
      source: "export default () => { try { return eval('1'); } catch (e) { return e.name; } }",
    });
    expect(outputOf(await run("caught"))).toBe("EvalError");
  });

  test("is accepted together with the grant where it is enabled", async () => {
    await using open = await makeGlovebox({ engine: { dynamicCode: true } });
    const { description } = await open.addTool({ name: "both", source: DYNAMIC }, { grant: ["stringToCode"] });
    expect(description).toBe("42,42,42,42");
  });

  test("does not affect inspectTool beyond what the top level observes", async () => {
    await using open = await makeGlovebox({ engine: {} });
    const [on, off] = await Promise.all([
      open.inspectTool({ source: SOURCE }),
      glovebox.inspectTool({ source: SOURCE }),
    ]);
    expect([on.definition.description, off.definition.description]).toEqual(["stringToCode", ""]);
  });

  test.for<[value: unknown, path: string]>([
    [true, "options.engine"],
    [null, "options.engine"],
    [{ dynamicCode: "yes" }, "options.engine.dynamicCode"],
    [{ dynamicCode: Promise.resolve(false) }, "options.engine.dynamicCode"],
    [{ dynamiccode: false }, "options.engine.dynamiccode"],
  ])("rejects %j", async ([engine, path]) => {
    const error = await failureOf(makeGlovebox({ engine: engine as never }));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringContaining(path) });
  });
});

describe("createGlovebox({ coarseTime })", () => {
  const BUSY = `
    const busy = () => { const began = Date.now(); let x = 0; for (let i = 0; i < 6e7; i += 1) x = (x + i) % 7; return [Date.now() - began, x].slice(0, 1); };
    export const description = String(busy());
    export default async () => { const [spent] = busy(); const began = Date.now(); await new Promise((done) => setTimeout(done, 30)); return [spent, Date.now() - began > 0]; };`;

  test("stops the clock while a tool's code runs, including its top level", async () => {
    await using coarse = await makeGlovebox({ coarseTime: true });
    const { description } = await coarse.addTool({ name: "busy", source: BUSY });
    expect(description).toBe("0");
    expect(outputOf(await coarse.execute({ id: "c", toolName: "busy" }))).toEqual([0, true]);
  });

  test("is off by default", async () => {
    const { description } = await glovebox.addTool({ name: "busy", source: BUSY });
    expect(Number(description)).toBeGreaterThan(0);
    const [spent, moved] = outputOf(await run("busy")) as [number, boolean];
    expect([spent > 0, moved]).toEqual([true, true]);
  });

  test.for([1, "yes", null])("rejects %j", async (coarseTime) => {
    const error = await failureOf(makeGlovebox({ coarseTime: coarseTime as never }));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringContaining("options.coarseTime") });
  });
});
