// A worker has one socket, and makes no other.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("opens sockets", {
  worker: `process.on("uncaughtException", () => {});
serve(async (call) => {
  const outcomes = {};
  const attempt = async (name, run) => {
    const silence = new Promise((_, fail) => setTimeout(() => fail(new Error("silent")), 300));
    try { outcomes[name] = "did it: " + String(await Promise.race([run(), silence])).slice(0, 40); } catch (error) { outcomes[name] = error.code ?? error.name; }
  };
  await attempt("connect", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.connect(9, "127.0.0.1").on("connect", () => done("connected")).on("error", (error) => (error.code === "ECONNREFUSED" ? done("asked the kernel") : fail(error)))); });
  await attempt("listen", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.createServer().on("error", fail).listen(0, "127.0.0.1", () => done("listening"))); });
  await attempt("unix", async () => { const n = await import("node:net"); return new Promise((done, fail) => n.createServer().on("error", fail).listen("/tmp/glovebox-was-here.sock", () => done("listening"))); });
  await attempt("udp", async () => { const d = await import("node:dgram"); return new Promise((done, fail) => d.createSocket("udp4").on("error", fail).send("x", 9, "127.0.0.1", (error) => (error ? fail(error) : done("sent")))); });
  await attempt("dns", async () => { const d = await import("node:dns/promises"); return d.lookup("localhost").then((found) => found.address); });
  await attempt("fetch", async () => { return fetch("http://127.0.0.1:9").catch((error) => { throw error.cause?.code === "ECONNREFUSED" ? Object.assign(error, { code: "did it: asked the kernel" }) : (error.cause ?? error); }); });
  await attempt("inspector", async () => { const i = await import("node:inspector"); i.open(0, "127.0.0.1"); return i.url(); });
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
