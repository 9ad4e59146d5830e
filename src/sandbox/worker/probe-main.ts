// The probe's entry: its targets are its one argument.
import { probe } from "./probe.ts";

const [argument = ""] = process.argv.slice(2);
await probe(argument);
