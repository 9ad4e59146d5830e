// Tries the back doors into Node's internal bindings and into the permission model itself.
import { testForbidden } from "./support.ts";

testForbidden(
  "looks for Node's own bindings",
  `await attempt("binding", async () => { return process.binding("fs").open ?? process.binding("spawn_sync").spawn; });
  await attempt("linked", async () => { return process._linkedBinding("fs"); });
  await attempt("permission drop", async () => { process.permission.drop?.("fs.read"); return process.permission.has("fs.read", "/etc/passwd") ? "may read" : Promise.reject(new Error("no")); });
  await attempt("permission child", async () => { return process.permission.has("child") ? "may spawn" : Promise.reject(new Error("no")); });
  await attempt("permission net", async () => { return process.permission.has("net") ? "may connect" : Promise.reject(new Error("no")); });
  await attempt("environment", async () => { const known = ["LIBC", "TZ", "PWD", "GLIBC_TUNABLES"]; const names = Object.keys(process.env).filter((name) => !known.includes(name)); return names.length > 0 ? names : Promise.reject(new Error("empty")); });
  await attempt("descriptors", async () => { const fs = await import("node:fs"); const open = []; for (let fd = 4; fd < 200; fd += 1) try { const stat = fs.fstatSync(fd); if (stat.isFile() || stat.isSocket()) open.push(fd); } catch {} return open.length > 0 ? open : Promise.reject(new Error("none")); });`,
);
