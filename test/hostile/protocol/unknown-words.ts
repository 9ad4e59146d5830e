// Sends a log level and an outcome that are not in the lookup table but are inherited by every object.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("logs at the level of constructor", {
  worker: `serve(({ seq }) => { send({ type: "log", seq, level: "constructor", time: 1 }, "x"); ended(seq, "toString", "1"); });`,
  codes: ["SANDBOX_CRASHED"],
});
