// A process of its own that resumes a paused run: `node agent-resume-script.ts STATE_FILE CLAIMS_FOLDER APPROVED`; prints the outcome.
import { readFile } from "node:fs/promises";
import { AgentLoop, createFileClaims } from "../../src/host/agent/index.ts";
import { createGlovebox } from "../../src/host/index.ts";
import { says, scriptModel } from "./scripted-model.ts";

const [stateFile = "", claims = "", approved = ""] = process.argv.slice(2);
await using box = await createGlovebox();
await box.addTool({ name: "add", source: "export default ({ a, b }) => a + b" }, { tenantId: "acme" });
const state: unknown = JSON.parse(await readFile(stateFile, "utf8"));
const outcome = await new AgentLoop().run({
  ...{ model: scriptModel(says("Done.")).model, router: box, context: { tenantId: "acme" } },
  ...{ state, decisions: { c1: approved === "yes" }, claim: createFileClaims(claims) },
  stateKey: "a secret of thirty-two characters",
});
console.log(JSON.stringify(outcome));
