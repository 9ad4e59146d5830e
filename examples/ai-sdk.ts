// Sandboxed tools in the AI SDK: the SDK runs the conversation, Glovebox runs the tools.
// Shows a stream with a tool call, a tool that fails while the conversation goes on, and a limit for the whole request.
//
// Run: OPENAI_API_KEY=… node ai-sdk.ts "How far is it from Berlin to Paris?"
// OPENAI_BASE_URL and OPENAI_MODEL select another server and model.
import { openai } from "@ai-sdk/openai";
import { isStepCount, streamText } from "ai";
import { createGlovebox } from "glovebox";
import { toAISDKTools } from "glovebox/ai-sdk";

const distanceSource = `
  export const description = "Returns the distance between two cities in km";
  export const inputSchema = {
    type: "object",
    properties: { from: { type: "string" }, to: { type: "string" } },
    required: ["from", "to"],
  };
  const cities = { berlin: [52.52, 13.405], paris: [48.8566, 2.3522] };
  const radians = (degrees) => (degrees * Math.PI) / 180;
  function locate(name) {
    const city = cities[name.toLowerCase()];
    if (city === undefined) throw new Error("Unknown city: " + name + ". Known: " + Object.keys(cities).join(", "));
    return city.map(radians);
  }
  export default ({ from, to }) => {
    const [a, b] = [locate(from), locate(to)];
    const half = Math.sin((b[0] - a[0]) / 2) ** 2 + Math.cos(a[0]) * Math.cos(b[0]) * Math.sin((b[1] - a[1]) / 2) ** 2;
    return { km: Math.round(2 * 6371 * Math.asin(Math.sqrt(half))) };
  };
`;

await using glovebox = await createGlovebox({ limits: { timeoutMs: 30_000 } });
await glovebox.addTool({ name: "distance", source: distanceSource });

const { fullStream } = streamText({
  model: openai(process.env.OPENAI_MODEL ?? "gpt-5.1"),
  tools: toAISDKTools(glovebox),
  prompt: process.argv[2] ?? "How far is it from Berlin to Paris?",
  stopWhen: isStepCount(5),
  // An abort stops the tool that runs, too.
  abortSignal: AbortSignal.timeout(60_000),
});

for await (const part of fullStream) {
  if (part.type === "tool-call") console.log(`> ${part.toolName} ${JSON.stringify(part.input)}`);
  if (part.type === "tool-result") console.log(`< ${JSON.stringify(part.output)}`);
  // The model is shown the same sentence, and may call again with other arguments.
  if (part.type === "tool-error") console.log(`< ${(part.error as Error).message}`);
  if (part.type === "text-delta") process.stdout.write(part.text);
  if (part.type === "error") console.error(part.error);
}
console.log();
