// Tries to read and write host files. Node's permission model must deny it.
import { testForbidden } from "./support.ts";

testForbidden(
  "reads and writes files",
  `await attempt("read", async () => { const fs = await import("node:fs"); return fs.readFileSync("/etc/passwd", "utf8"); });
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
  await attempt("chdir", async () => { process.chdir("/etc"); return process.cwd(); });`,
);
