// Attack: memory that V8's heap limit does not count, or that two threads share: WebAssembly, shared and resizable buffers, Atomics.
import { describe, expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";
import { GUEST_GLOBALS } from "./globals.ts";

describe("A guest has no", () => {
  test.for([
    ["WebAssembly"],
    ["SharedArrayBuffer"],
    ["Atomics"],
    ["ShadowRealm"],
    ["require"],
    ["module"],
    ["global"],
    ["Worker"],
    ["importScripts"],
    ["gc"],
    ["d8"],
    ["ivm"],
    ["isolated_vm"],
  ])("%s", async ([name]) => {
    const end = await runGuest(
      `() => [typeof ${name}, ${JSON.stringify(name)} in globalThis, typeof globalThis[${JSON.stringify(name)}]]`,
    );
    expect(end.value).toEqual(["undefined", false, "undefined"]);
  });

  test("global that is not on the list", async () => {
    const end = await runGuest(`() => {
      const names = [];
      for (let at = globalThis; at !== null; at = Object.getPrototypeOf(at)) if (at !== Object.prototype) names.push(...Object.getOwnPropertyNames(at));
      return names.sort();
    }`);
    // Written out, so that a new version of V8 cannot add a power unseen.
    expect(end.value).toEqual([...GUEST_GLOBALS].sort());
  });
});

/** Each makes a buffer and tells whether it can grow. */
const GROWTH: readonly [name: string, buffer: string][] = [
  ["the constructor", "new ArrayBuffer(8, { maxByteLength: 1e9 })"],
  ["Reflect.construct", "Reflect.construct(ArrayBuffer, [8, { maxByteLength: 1e9 }])"],
  ["the prototype's constructor", "new ArrayBuffer.prototype.constructor(8, { maxByteLength: 1e9 })"],
  [
    "the constructor of a typed array's buffer",
    "new (new Uint8Array(1).buffer.constructor)(8, { maxByteLength: 1e9 })",
  ],
  [
    "the constructor of a DataView's buffer",
    "new (new DataView(new ArrayBuffer(1)).buffer.constructor)(8, { maxByteLength: 1e9 })",
  ],
  ["the species", "new ArrayBuffer[Symbol.species](8, { maxByteLength: 1e9 })"],
  ["a subclass", "new (class extends ArrayBuffer { constructor() { super(8, { maxByteLength: 1e9 }); } })()"],
  ["another new.target", "Reflect.construct(ArrayBuffer, [8, { maxByteLength: 1e9 }], Object)"],
  ["a bound constructor", "new (ArrayBuffer.bind(null, 8, { maxByteLength: 1e9 }))()"],
  ["a proxy of the constructor", "new (new Proxy(ArrayBuffer, {}))(8, { maxByteLength: 1e9 })"],
  ["structuredClone", "structuredClone(new ArrayBuffer(8, { maxByteLength: 1e9 }))"],
  [
    "structuredClone with transfer",
    "((b) => structuredClone(b, { transfer: [b] }))(new ArrayBuffer(8, { maxByteLength: 1e9 }))",
  ],
  ["transfer()", "new ArrayBuffer(8, { maxByteLength: 1e9 }).transfer(16)"],
  ["transferToFixedLength()", "new ArrayBuffer(8, { maxByteLength: 1e9 }).transferToFixedLength()"],
  [
    "slice() with a species of the guest's",
    "((b) => { b.constructor = { [Symbol.species]: ArrayBuffer }; return b.slice(0, 8); })(new ArrayBuffer(8))",
  ],
  ["a maxByteLength on Object.prototype", "(Object.prototype.maxByteLength = 1e9, new ArrayBuffer(8))"],
  ["a length whose valueOf looks back", "new ArrayBuffer({ valueOf() { return 8; }, maxByteLength: 1e9 })"],
  ["TextEncoder", "new TextEncoder().encode('12345678').buffer"],
];

describe("No buffer of a guest can grow: not one by", () => {
  test.for(GROWTH)("%s", async ([, buffer]) => {
    const end = await runGuest(`() => {
      const buffer = ${buffer};
      const length = (b) => Reflect.get(Object.getPrototypeOf(new Uint8Array(1).buffer), "byteLength", b);
      const real = buffer instanceof ArrayBuffer ? buffer : Object.setPrototypeOf(buffer, ArrayBuffer.prototype);
      let grown;
      try { grown = typeof real.resize === "function" ? (real.resize(1e6), "resized") : "no resize"; } catch (error) { grown = error.name; }
      return { resizable: real.resizable, same: real.maxByteLength === length(real), grown };
    }`);
    expect(end).toMatchObject({ outcome: "output", value: { resizable: false, same: true, grown: "no resize" } });
  });

  test("ArrayBuffer as it is seen: name, length, statics, instances", async () => {
    const end = await runGuest(`() => [
      ArrayBuffer.name, ArrayBuffer.length, ArrayBuffer.isView(new Uint8Array(1)), ArrayBuffer[Symbol.species] === ArrayBuffer,
      new ArrayBuffer(8).byteLength, new Uint8Array(2).buffer instanceof ArrayBuffer, new ArrayBuffer(8).constructor === ArrayBuffer,
      (() => { try { ArrayBuffer(8); } catch (error) { return error.name; } })(),
      (() => { try { new ArrayBuffer(-1); } catch (error) { return error.name; } })(),
    ]`);
    expect(end.value).toEqual(["ArrayBuffer", 1, true, true, 8, true, true, "TypeError", "RangeError"]);
  });

  test.for([
    [
      "the real constructor on the stack, through a valueOf",
      "new ArrayBuffer({ valueOf: function () { note(); return 8; } })",
    ],
    [
      "the real constructor on the stack, through a new.target",
      "Reflect.construct(ArrayBuffer, [8], new Proxy(function () {}, { get(t, k, r) { note(); return Reflect.get(t, k, r); } }))",
    ],
  ])("a guest cannot obtain %s", async ([, attempt]) => {
    const end = await runGuest(`() => {
      const found = [];
      Error.prepareStackTrace = (error, sites) => sites;
      Error.stackTraceLimit = 100;
      const note = function () { for (const site of new Error().stack) found.push(site.getFunction(), site.getThis()); };
      ${attempt};
      return found.filter((item) => typeof item === "function" && item !== note && item !== ArrayBuffer)
        .map((item) => { try { return new item(8, { maxByteLength: 1e9 }).resizable; } catch { return "cannot"; } });
    }`);
    expect(end.outcome).toBe("output");
    expect(end.value).not.toContain(true);
  });
});
