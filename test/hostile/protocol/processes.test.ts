// A worker starts nothing: no process, no thread, no fork of itself without end.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("starts processes and threads", {
  worker: `process.on("uncaughtException", () => {});
serve(async (call) => {
  const outcomes = {};
  const attempt = async (name, run) => {
    const silence = new Promise((_, fail) => setTimeout(() => fail(new Error("silent")), 300));
    try { outcomes[name] = "did it: " + String(await Promise.race([run(), silence])).slice(0, 40); } catch (error) { outcomes[name] = error.code ?? error.name; }
  };
  await attempt("spawn", async () => { const c = await import("node:child_process"); return c.spawnSync("/bin/true").status; });
  await attempt("exec", async () => { const c = await import("node:child_process"); return c.execSync("id"); });
  await attempt("fork", async () => { const c = await import("node:child_process"); return c.fork(process.argv[1]).pid; });
  await attempt("bomb", async () => { const c = await import("node:child_process"); for (let n = 0; n < 50; n += 1) c.spawn(process.execPath, [process.argv[1]]); return "bomb"; });
  await attempt("thread", async () => { const w = await import("node:worker_threads"); return new w.Worker("1", { eval: true }).threadId; });
  await attempt("cluster", async () => { const c = await import("node:cluster"); return c.default.fork().id; });
  await attempt("execve", async () => { return process.execve("/bin/true", ["true"], {}); });
  await attempt("dlopen", async () => { return process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6"); });
  await attempt("ffi", async () => { return (await import("node:ffi")).dlopen; });
  await attempt("wasi", async () => { const w = await import("node:wasi"); return new w.WASI({ version: "preview1", preopens: { "/": "/" } }).start({ exports: { memory: new WebAssembly.Memory({ initial: 1 }), _start() {} } }) ?? "started"; });
  ended(call.seq, "output", JSON.stringify(outcomes));
  send({ type: "released", seq: call.seq });
});`,
  codes: ["ok"],
  dies: false,
  check: (result) => {
    for (const [name, outcome] of Object.entries(outputOf(result) as object))
      expect([name, outcome]).not.toEqual([name, expect.stringMatching(/^did it/)]);
  },
});
