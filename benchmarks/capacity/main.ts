// The capacity of a fleet: writes the tables of docs/guides/capacity.md, or prints them for other assumptions.
import { readFileSync, writeFileSync } from "node:fs";
import { DEFAULTS, readAssumptions } from "./assumptions.ts";
import { readChecks, readInputs } from "./inputs.ts";
import { fillPage, toTables } from "./page.ts";

const PAGE = new URL("../../docs/guides/capacity.md", import.meta.url);
const args = process.argv.slice(2);
const assumptions = args.length === 0 ? DEFAULTS : readAssumptions(args);
const tables = toTables({ inputs: readInputs(), checks: readChecks(), assumptions });
if (args.length === 0) writeFileSync(PAGE, fillPage(readFileSync(PAGE, "utf8"), tables));
else for (const [name, text] of Object.entries(tables)) console.log(`${name}\n\n${text}\n`);
