// A worker process has one socket and must not open another.
import { testForbidden } from "./support.ts";

testForbidden(
  "opens sockets",
  `await attempt("connect", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.connect(9, "127.0.0.1").on("connect", () => done("connected")).on("error", (error) => (error.code === "ECONNREFUSED" ? done("asked the kernel") : fail(error)))); });
  await attempt("listen", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.createServer().on("error", fail).listen(0, "127.0.0.1", () => done("listening"))); });
  await attempt("unix", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.createServer().on("error", fail).listen("/tmp/glovebox-was-here.sock", () => done("listening"))); });
  await attempt("udp", async () => { const d = await import("node:dgram"); return new Promise((done, fail) => d.createSocket("udp4").on("error", fail).send("x", 9, "127.0.0.1", (error) => (error ? fail(error) : done("sent")))); });
  await attempt("dns", async () => { const d = await import("node:dns/promises"); return d.lookup("localhost").then((found) => found.address); });
  await attempt("fetch", async () => { return fetch("http://127.0.0.1:9").catch((error) => { throw error.cause?.code === "ECONNREFUSED" ? Object.assign(error, { code: "did it: asked the kernel" }) : (error.cause ?? error); }); });
  await attempt("inspector", async () => { const i = await import("node:inspector"); i.open(0, "127.0.0.1"); return i.url(); });`,
);
