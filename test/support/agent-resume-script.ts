// A separate process that resumes a paused run: `node agent-resume-script.ts STATE_FILE CLAIMS_FOLDER APPROVED`. Prints the outcome.
import { readFile } from "node:fs/promises";
import { AgentLoop, createFileIdempotencyStore } from "../../src/host/agent/index.ts";
import { ToolRouter } from "../../src/host/routing/tool-router.ts";
import { says, scriptModel } from "./scripted-model.ts";

const [stateFile = "", claims = "", approved = ""] = process.argv.slice(2);
const router = new ToolRouter({ tenancy: "multi" });
const add = (input: unknown): number => {
  const { a, b } = input as { readonly a: number; readonly b: number };
  return a + b;
};
router.register("add", {}, add, { tenantId: "acme" });
const state: unknown = JSON.parse(await readFile(stateFile, "utf8"));
const outcome = await new AgentLoop().run({
  model: scriptModel(says("Done.")).model,
  router,
  context: { tenantId: "acme" },
  state,
  approvals: { c1: approved === "yes" },
  idempotencyStore: createFileIdempotencyStore(claims),
  signingKey: "a secret of thirty-two characters",
});
console.log(JSON.stringify(outcome));
