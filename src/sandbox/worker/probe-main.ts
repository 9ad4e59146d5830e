// Entry point of the probe process. Its only argument is the ProbeTargets as JSON text.
import { probe } from "./probe.ts";

const [argument = ""] = process.argv.slice(2);
await probe(argument);
