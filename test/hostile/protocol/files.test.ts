// Taken over, it reads and writes what it likes: the permission model is what stands there.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reads and writes files", {
  worker: `process.on("uncaughtException", () => {});
serve(async (call) => {
  const outcomes = {};
  const attempt = async (name, run) => {
    const silence = new Promise((_, fail) => setTimeout(() => fail(new Error("silent")), 300));
    try { outcomes[name] = "did it: " + String(await Promise.race([run(), silence])).slice(0, 40); } catch (error) { outcomes[name] = error.code ?? error.name; }
  };
  await attempt("read", async () => { const fs = await import("node:fs"); return fs.readFileSync("/etc/passwd", "utf8"); });
  await attempt("list", async () => { const fs = await import("node:fs"); return fs.readdirSync("/"); });
  await attempt("environ", async () => { const fs = await import("node:fs"); return fs.readFileSync("/proc/self/environ", "utf8"); });
  await attempt("write", async () => { const fs = await import("node:fs"); return fs.writeFileSync("/tmp/glovebox-was-here", "x"); });
  await attempt("promises", async () => { const fs = await import("node:fs/promises"); return fs.readFile("/etc/hostname", "utf8"); });
  await attempt("open", async () => { const fs = await import("node:fs"); return fs.openSync("/etc/passwd"); });
  await attempt("link", async () => { const fs = await import("node:fs"); return fs.symlinkSync("/etc/passwd", new URL("link", import.meta.url)); });
  await attempt("watch", async () => { const fs = await import("node:fs"); return fs.watch("/etc"); });
  await attempt("import", async () => { return (await import("/etc/hostname")).default; });
  await attempt("json", async () => { const m = await import("node:module"); return m.createRequire(import.meta.url)("/etc/hostname"); });
  await attempt("sqlite", async () => { const s = await import("node:sqlite"); return new s.DatabaseSync("/tmp/glovebox-was-here.db"); });
  await attempt("snapshot", async () => { const v8 = await import("node:v8"); return v8.writeHeapSnapshot("/tmp/glovebox-was-here.heap"); });
  await attempt("report", async () => { return process.report.writeReport("/tmp/glovebox-was-here.json"); });
  await attempt("chdir", async () => { process.chdir("/etc"); return process.cwd(); });
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
