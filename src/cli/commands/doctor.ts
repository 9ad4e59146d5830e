// glovebox doctor: prints what protects the host on this machine, with the evidence, and what does not, with how to get it.
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
  yield "What a worker process is wrapped in";
  for (const { layer, state, stops, evidence } of layers) {
    yield `  ${MARKS[state]}${layer.padEnd(LAYER_WIDTH)} stops ${stops}`;
    if (evidence !== "") yield `${" ".repeat(13)}${evidence}`;
  }
  yield "";
  yield "What becomes of bad tools";
  for (const { attack, ok: isStopped, evidence } of tools) {
    yield `  ${isStopped ? "stopped    " : "NOT STOPPED "}${attack}: ${evidence}`;
  }
  yield "";
  const missing = layers.filter(({ state }) => state === "missing").length;
  if (!ok) yield "Something that should hold does not: see above";
  else
    yield missing === 0
      ? "Every layer holds"
      : `All that is here holds; ${missing} of ${layers.length} layers are missing`;
}

/** Exit code 0 when all that is there holds, 1 when something that should hold does not. */
export async function doctorCommand({ values }: Arguments, io: Io): Promise<number> {
  const diagnosis = await diagnose({ signal: io.stop });
  if (values.json === true) printJson(diagnosis, io.stdout);
  else for (const line of linesOf(diagnosis)) io.stdout.print(`${line}\n`);
  return diagnosis.ok ? 0 : 1;
}
