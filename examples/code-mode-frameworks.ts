// Code mode in the AI SDK and in the OpenAI Agents SDK: their adapters take a code mode as they take a Glovebox.
// Shows one question to both; each model gets search_tools and run_code only.
//
// Run: OPENAI_API_KEY=… node code-mode-frameworks.ts "How far is it from Berlin to Paris and back?"
// OPENAI_BASE_URL and OPENAI_MODEL select another server and model. Checking types needs `npm install typescript@7`.
import { openai } from "@ai-sdk/openai";
import { Agent, Runner } from "@openai/agents";
import { generateText, isStepCount } from "ai";
import { createGlovebox } from "glovebox";
import { toAISDKTools } from "glovebox/ai-sdk";
import { createCodeMode } from "glovebox/code-mode";
import { toAgentsTools } from "glovebox/openai-agents";

await using glovebox = await createGlovebox();
await glovebox.addTool({
  name: "distance",
  source: `const km = { "Berlin Paris": 878, "Paris Berlin": 878 };
    export default ({ from, to }) => ({ km: km[from + " " + to] ?? 0 });`,
  overrides: {
    description: "Returns the distance between two cities in km",
    inputSchema: {
      type: "object",
      properties: { from: { type: "string" }, to: { type: "string" } },
      required: ["from", "to"],
    },
    outputSchema: { type: "object", properties: { km: { type: "number" } }, required: ["km"] },
  },
});
const prompt = process.argv[2] ?? "How far is it from Berlin to Paris and back?";
const name = process.env.OPENAI_MODEL ?? "gpt-5.1";

// The AI SDK.
await using codeMode = createCodeMode(glovebox);
const tools = toAISDKTools(codeMode);
const { text } = await generateText({ model: openai(name), tools, prompt, stopWhen: isStepCount(5) });
console.log(`AI SDK: ${text}`);

// The Agents SDK.
const agent = new Agent({ name: "Guide", model: name, tools: toAgentsTools(codeMode) });
const result = await new Runner({ tracingDisabled: true }).run(agent, prompt, { maxTurns: 5 });
console.log(`Agents SDK: ${result.finalOutput}`);
