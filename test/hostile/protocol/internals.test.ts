// The back doors into Node's own bindings, and the permission model itself.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("looks for Node's own bindings", {
  worker: `process.on("uncaughtException", () => {});
serve(async (call) => {
  const outcomes = {};
  const attempt = async (name, run) => {
    const silence = new Promise((_, fail) => setTimeout(() => fail(new Error("silent")), 300));
    try { outcomes[name] = "did it: " + String(await Promise.race([run(), silence])).slice(0, 40); } catch (error) { outcomes[name] = error.code ?? error.name; }
  };
  await attempt("binding", async () => { return process.binding("fs").open ?? process.binding("spawn_sync").spawn; });
  await attempt("linked", async () => { return process._linkedBinding("fs"); });
  await attempt("permission drop", async () => { process.permission.drop?.("fs.read"); return process.permission.has("fs.read", "/etc/passwd") ? "may read" : Promise.reject(new Error("no")); });
  await attempt("permission child", async () => { return process.permission.has("child") ? "may spawn" : Promise.reject(new Error("no")); });
  await attempt("permission net", async () => { return process.permission.has("net") ? "may connect" : Promise.reject(new Error("no")); });
  await attempt("environment", async () => { const known = ["LIBC", "TZ", "PWD", "GLIBC_TUNABLES"]; const names = Object.keys(process.env).filter((name) => !known.includes(name)); return names.length > 0 ? names : Promise.reject(new Error("empty")); });
  await attempt("descriptors", async () => { const fs = await import("node:fs"); const open = []; for (let fd = 4; fd < 200; fd += 1) try { const stat = fs.fstatSync(fd); if (stat.isFile() || stat.isSocket()) open.push(fd); } catch {} return open.length > 0 ? open : Promise.reject(new Error("none")); });
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
