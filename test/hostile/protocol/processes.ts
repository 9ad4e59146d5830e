// A worker process must not start anything: no process, no thread, and no endless fork of itself.
import { testForbidden } from "./support.ts";

testForbidden(
  "starts processes and threads",
  `await attempt("spawn", async () => { const c = await import("node:child_process"); return c.spawnSync("/bin/true").status; });
  await attempt("exec", async () => { const c = await import("node:child_process"); return c.execSync("id"); });
  await attempt("fork", async () => { const c = await import("node:child_process"); return c.fork(process.argv[1]).pid; });
  await attempt("bomb", async () => { const c = await import("node:child_process"); for (let n = 0; n < 50; n += 1) c.spawn(process.execPath, [process.argv[1]]); return "bomb"; });
  await attempt("thread", async () => { const w = await import("node:worker_threads"); return new w.Worker("1", { eval: true }).threadId; });
  await attempt("cluster", async () => { const c = await import("node:cluster"); return c.default.fork().id; });
  await attempt("execve", async () => { return process.execve("/bin/true", ["true"], {}); });
  await attempt("dlopen", async () => { return process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6"); });
  await attempt("ffi", async () => { return (await import("node:ffi")).dlopen; });
  await attempt("wasi", async () => { const w = await import("node:wasi"); return new w.WASI({ version: "preview1", preopens: { "/": "/" } }).start({ exports: { memory: new WebAssembly.Memory({ initial: 1 }), _start() {} } }) ?? "started"; });`,
);
