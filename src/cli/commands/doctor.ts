// glovebox doctor: prints the protection of the host on this machine with its evidence, and how to get missing layers.
import { type Diagnosis, diagnose } from "../../host/doctor/doctor.ts";
import { printJson } from "../shared/print.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

const MARKS = {
  holds: "holds      ",
  missing: "MISSING    ",
  broken: "BROKEN     ",
  "not-needed": "not needed ",
  "switched-off": "off        ",
} as const;
const LAYER_WIDTH = 20;

function* linesOf({ layers, tools, ok }: Diagnosis): Generator<string> {
  yield "Layers around a worker process";
  for (const { layer, state, stops, evidence } of layers) {
    yield `  ${MARKS[state]}${layer.padEnd(LAYER_WIDTH)} stops ${stops}`;
    if (evidence !== "") yield `${" ".repeat(13)}${evidence}`;
  }
  yield "";
  yield "Hostile tools";
  for (const { attack, ok: isStopped, evidence } of tools) {
    yield `  ${isStopped ? "stopped    " : "NOT STOPPED "}${attack}: ${evidence}`;
  }
  yield "";
  const missing = layers.filter(({ state }) => state === "missing").length;
  if (!ok) yield "A layer is broken or a tool was not stopped: see above";
  else
    yield missing === 0
      ? "Every layer holds"
      : `All active layers hold; ${missing} of ${layers.length} layers are missing`;
}

/** Exits with 0 if all active layers hold and all hostile tools were stopped, otherwise with 1. */
export async function doctorCommand({ values }: Arguments, io: Io): Promise<number> {
  const diagnosis = await diagnose({ signal: io.stop });
  if (values.json === true) printJson(diagnosis, io.stdout);
  else for (const line of linesOf(diagnosis)) io.stdout.print(`${line}\n`);
  return diagnosis.ok ? 0 : 1;
}
