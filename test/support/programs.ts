// Random programs of awaits, parallel calls, timers and errors, for property tests of recordings: one tool interprets them, so that a program
// is only an input.
import fc from "fast-check";

/** A program: what it awaits, alone or in parallel. */
export type Program =
  | { readonly op: "timer" | "slow" | "immediate"; readonly ms: number }
  | { readonly op: "fail"; readonly ms: number }
  | { readonly op: "kv" | "digest" | "gzip" | "random" | "nested" | "unhandled" | "log"; readonly key: string }
  | { readonly op: "throw"; readonly key: string }
  | { readonly op: "seq" | "all" | "race" | "any" | "allSettled"; readonly of: readonly Program[] }
  | { readonly op: "try"; readonly of: readonly Program[] }
  | { readonly op: "interval"; readonly ms: number; readonly times: number };

const key = fc.constantFrom("a", "b", "c");
const ms = fc.constantFrom(0, 1, 2, 3, 5);

/** Arbitrary programs with at most about 20 steps. */
export const programs: fc.Arbitrary<Program> = fc.letrec<{ program: Program; list: readonly Program[] }>((tie) => ({
  program: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    fc.record({ op: fc.constantFrom("timer", "slow", "immediate"), ms }),
    fc.record({ op: fc.constant("fail"), ms }),
    fc.record({ op: fc.constantFrom("kv", "digest", "gzip", "random", "nested", "unhandled", "log"), key }),
    fc.record({ op: fc.constant("throw"), key }),
    fc.record({ op: fc.constant("interval"), ms: fc.constantFrom(1, 2, 3), times: fc.constantFrom(1, 2, 3) }),
    fc.record({ op: fc.constant("try"), of: tie("list") }),
    fc.record({ op: fc.constantFrom("seq", "all", "race", "any", "allSettled"), of: tie("list") }),
  ) as fc.Arbitrary<Program>,
  list: fc.array(tie("program"), { minLength: 1, maxLength: 4 }),
})).program;

/** The tool that runs a program. Its output lists what happened, when, and in which order. */
export const PROGRAM_TOOL = `
  import { promisify } from "node:util";
  import { gzip } from "node:zlib";
  export const capabilities = { kv: true, slow: true, tools: true };
  const top = [Math.random(), Date.now(), crypto.randomUUID()];
  export default async ({ program }, ctx) => {
    const events = [];
    let count = 0;
    const note = (what) => { if (events.length < 500) events.push([what, Date.now(), Math.random().toString(36).slice(2, 6)]); return what; };
    const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const steps = {
      timer: ({ ms }) => sleep(ms).then(() => note("timer " + ms)),
      immediate: () => new Promise((resolve) => setImmediate(() => resolve(note("immediate")))),
      slow: ({ ms }) => ctx.slow({ ms }).then((value) => note("slow " + value)),
      fail: ({ ms }) => ctx.slow({ ms, fail: true }).then(note, (error) => { note("failed " + error.message); throw error; }),
      kv: async ({ key }) => { const n = (await ctx.kv.get(key)) ?? 0; await ctx.kv.set(key, n + 1); return note("kv " + key + n); },
      digest: ({ key }) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(key.repeat(50_000))).then((bytes) => note("digest " + new Uint8Array(bytes)[0])),
      gzip: ({ key }) => promisify(gzip)(key.repeat(20_000)).then((bytes) => note("gzip " + bytes.length)),
      random: async ({ key }) => note(key + crypto.getRandomValues(new Uint32Array(1))[0]),
      nested: ({ key }) => ctx.tools.other({ key }).then((value) => note("nested " + JSON.stringify(value))),
      unhandled: async ({ key }) => { Promise.reject(new Error("unhandled " + key)); return note("unhandled"); },
      log: ({ key }) => ctx.log(key).then(() => note("log")),
      throw: async ({ key }) => { note("throw"); throw new Error("thrown " + key); },
      interval: ({ ms, times }) => new Promise((resolve) => {
        let left = times;
        const id = setInterval(() => { note("interval"); left -= 1; if (left === 0) { clearInterval(id); resolve("interval"); } }, ms);
      }),
      seq: async ({ of }) => { const results = []; for (const one of of) results.push(await run(one)); return results; },
      try: async ({ of }) => { try { for (const one of of) await run(one); return "tried"; } catch (error) { return note("caught " + (error.errors?.length ?? error.message)); } },
      all: ({ of }) => Promise.all(of.map(run)),
      race: ({ of }) => Promise.race(of.map(run)),
      any: ({ of }) => Promise.any(of.map(run)),
      allSettled: ({ of }) => Promise.allSettled(of.map(run)).then((all) => all.map(({ status, value, reason }) => [status, value, reason?.message])),
    };
    const run = (one) => { count += 1; return steps[one.op](one); };
    const result = await run(program).catch((error) => ["error", error.name, error.message]);
    return { top, result, events, count, end: [Date.now(), performance.now()] };
  };`;

/** The tool that programs call with `ctx.tools`. */
export const OTHER_TOOL = `
  export default async ({ key }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
    if (Math.random() < 0.2) throw new Error("the nested call failed");
    return { key, random: Math.random() };
  };`;
