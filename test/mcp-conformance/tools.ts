// Defines the tools that the conformance suite expects of a server, as sandboxed source with their capabilities.

export interface SuiteTool {
  readonly name: string;
  readonly source: string;
  readonly asks?: readonly string[];
}

/** A red pixel. */
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/** A WAV file without samples. */
export const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const tool = (name: string, source: string, ...asks: readonly string[]): SuiteTool => ({
  name,
  source: `import { audio, content, image, resource, text } from "glovebox/tool";
const bytes = (base64) => Uint8Array.from(atob(base64), (unit) => unit.charCodeAt(0));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const form = (properties) => ({ type: "object", properties, required: Object.keys(properties) });
const say = (message) => ({ role: "user", content: { type: "text", text: message } });
export const description = ${JSON.stringify(`For the conformance suite: ${name}`)};
${source}`,
  asks,
});

const NAME_FORM = `{ message: "What is your name?", requestedSchema: form({ name: { type: "string" } }), key: "user_name" }`;
const OK_FORM = `{ message: "Please confirm", requestedSchema: form({ ok: { type: "boolean" } }), key: "confirm" }`;

export const SUITE_TOOLS: readonly SuiteTool[] = [
  tool("test_simple_text", `export default () => "This is a simple text response for testing.";`),
  tool("test_image_content", `export default () => content([image(bytes("${PIXEL}"), "image/png")]);`),
  tool("test_audio_content", `export default () => content([audio(bytes("${SILENCE}"), "audio/wav")]);`),
  tool(
    "test_embedded_resource",
    `export default () => content([resource({
      uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content.",
    })]);`,
  ),
  tool(
    "test_multiple_content_types",
    `export default () => content([
      text("Multiple content types test:"),
      image(bytes("${PIXEL}"), "image/png"),
      resource({
        uri: "test://mixed-content-resource", mimeType: "application/json", text: JSON.stringify({ test: "data", value: 123 }),
      }),
    ]);`,
  ),
  tool(
    "test_tool_with_logging",
    `export default async (input, { log }) => {
      log.info("Tool execution started");
      await pause(50);
      log.info("Tool processing data");
      await pause(50);
      log.info("Tool execution completed");
      return "Tool with logging executed successfully";
    };`,
  ),
  tool("test_logging_tool", `export default (input, { log }) => { log.info("Logged"); return "logged"; };`),
  tool(
    "test_error_handling",
    `export default () => { throw new Error("This tool intentionally returns an error for testing"); };`,
  ),
  tool(
    "test_tool_with_progress",
    `export default async (input, { progress }) => {
      for (const done of [0, 50, 100]) {
        if (done > 0) await pause(50);
        progress({ progress: done, total: 100, message: "Completed " + done + " of 100" });
      }
      return "Tool with progress executed successfully";
    };`,
  ),
  tool(
    "test_sampling",
    `export const inputSchema = form({ prompt: { type: "string" } });
    export default async ({ prompt }, { sample }) =>
      "LLM response: " + (await sample({ messages: [say(prompt)], maxTokens: 100 })).content.text;`,
    "sample",
  ),
  tool(
    "test_elicitation",
    `export const inputSchema = form({ message: { type: "string" } });
    export default async ({ message }, { elicit }) => {
      const { action, content = {} } = await elicit({
        message,
        requestedSchema: form({
          username: { type: "string", description: "User's response" },
          email: { type: "string", description: "User's email address" },
        }),
      });
      return "User response: action=" + action + ", content=" + JSON.stringify(content);
    };`,
    "elicit",
  ),
  tool(
    "test_elicitation_sep1034_defaults",
    `export default async (input, { elicit }) => {
      const { action, content = {} } = await elicit({
        message: "Please review and update the form fields with defaults",
        requestedSchema: {
          type: "object",
          properties: {
            name: { type: "string", description: "User name", default: "John Doe" },
            age: { type: "integer", description: "User age", default: 30 },
            score: { type: "number", description: "User score", default: 95.5 },
            status: { type: "string", description: "User status", enum: ["active", "inactive", "pending"], default: "active" },
            verified: { type: "boolean", description: "Verification status", default: true },
          },
          required: [],
        },
      });
      return "Elicitation completed: action=" + action + ", content=" + JSON.stringify(content);
    };`,
    "elicit",
  ),
  tool(
    "test_elicitation_sep1330_enums",
    `const titled = (prefix, titles) => titles.map((title, index) => ({ const: prefix + (index + 1), title }));
    export default async (input, { elicit }) => {
      const options = ["option1", "option2", "option3"];
      const { action, content = {} } = await elicit({
        message: "Please select options from the enum fields",
        requestedSchema: {
          type: "object",
          properties: {
            untitledSingle: { type: "string", enum: options },
            titledSingle: { type: "string", oneOf: titled("value", ["First Option", "Second Option", "Third Option"]) },
            legacyEnum: {
              type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"],
            },
            untitledMulti: { type: "array", items: { type: "string", enum: options } },
            titledMulti: { type: "array", items: { anyOf: titled("value", ["First Choice", "Second Choice", "Third Choice"]) } },
          },
          required: [],
        },
      });
      return "Elicitation completed: action=" + action + ", content=" + JSON.stringify(content);
    };`,
    "elicit",
  ),
  tool(
    "test_input_required_result_elicitation",
    `export default async (input, { elicit }) => "Hello, " + (await elicit(${NAME_FORM})).content.name + "!";`,
    "elicit",
  ),
  tool(
    "test_input_required_result_sampling",
    `export default async (input, { sample }) => {
      const { content } = await sample({ messages: [say("What is the capital of France?")], maxTokens: 100, key: "capital_question" });
      return content.text;
    };`,
    "sample",
  ),
  tool(
    "test_input_required_result_list_roots",
    `export default async (input, ctx) =>
      "Roots: " + (await ctx.roots({ key: "client_roots" })).roots.map(({ uri }) => uri).join(", ");`,
    "roots",
  ),
  tool(
    "test_input_required_result_request_state",
    `export default async (input, { elicit }) => (await elicit(${OK_FORM})).content.ok ? "state-ok" : "not confirmed";`,
    "elicit",
  ),
  tool(
    "test_input_required_result_tampered_state",
    `export default async (input, { elicit }) => (await elicit(${OK_FORM})).content.ok ? "state-ok" : "not confirmed";`,
    "elicit",
  ),
  tool(
    "test_input_required_result_multiple_inputs",
    `export default async (input, ctx) => {
      const [name, greeting, places] = await Promise.all([
        ctx.elicit(${NAME_FORM}),
        ctx.sample({ messages: [say("Generate a greeting")], maxTokens: 50, key: "greeting" }),
        ctx.roots({ key: "client_roots" }),
      ]);
      return greeting.content.text + " " + name.content.name + " of " + places.roots[0].uri;
    };`,
    "elicit",
    "sample",
    "roots",
  ),
  tool(
    "test_input_required_result_multi_round",
    `const ask = (key, message, field) => ({ key, message, requestedSchema: form({ [field]: { type: "string" } }) });
    export default async (input, { elicit }) => {
      const first = await elicit(ask("step1", "Step 1: What is your name?", "name"));
      const second = await elicit(ask("step2", "Step 2: What is your favorite color?", "color"));
      return first.content.name + " likes " + second.content.color;
    };`,
    "elicit",
  ),
  tool(
    "test_input_required_result_capabilities",
    `export default async (input, ctx) => {
      const outcomes = await Promise.allSettled([
        ctx.elicit(${NAME_FORM}),
        ctx.sample({ messages: [say("Say hello")], maxTokens: 20, key: "greeting" }),
      ]);
      return outcomes.map(({ status }) => status).join(", ");
    };`,
    "elicit",
    "sample",
  ),
  tool(
    "test_missing_capability",
    `export default async (input, { sample }) => (await sample({ messages: [say("Hello")], maxTokens: 20 })).content.text;`,
    "sample",
  ),
  tool(
    "test_streaming_elicitation",
    `export default async (input, { elicit, progress }) => {
      progress({ progress: 1, total: 2 });
      return (await elicit(${NAME_FORM})).action;
    };`,
    "elicit",
  ),
  tool("test_trigger_tool_change", `export default (input, ctx) => ctx.changeList({ list: "tools" });`, "changeList"),
  tool(
    "test_trigger_prompt_change",
    `export default (input, ctx) => ctx.changeList({ list: "prompts" });`,
    "changeList",
  ),
  tool(
    "test_argument_in_header",
    `export const inputSchema = {
      type: "object",
      properties: { region: { type: "string", "x-mcp-header": "Region" } },
    };
    export default ({ region }) => "In " + region;`,
  ),
  tool(
    "json_schema_2020_12_tool",
    `export const inputSchema = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: {
        address: {
          $anchor: "addressDef",
          type: "object",
          properties: { street: { type: "string" }, city: { type: "string" } },
        },
      },
      properties: {
        name: { type: "string" },
        address: { $ref: "#/$defs/address" },
        contactMethod: { type: "string", enum: ["phone", "email"] },
        phone: { type: "string" },
        email: { type: "string" },
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false,
    };
    export default (input) => "JSON Schema 2020-12 tool called with: " + JSON.stringify(input);`,
  ),
  // For the extension io.modelcontextprotocol/tasks: tools that are durable, or that may wait.
  tool("greet", `export default ({ name }) => "Hello, " + name + "!";`),
  tool(
    "slow_compute",
    `export default async ({ seconds = 0, label = "" }, ctx) => {
      if (seconds > 0) await ctx.waitFor({ durationMs: seconds * 1_000 });
      return "Computed " + label;
    };`,
    "waitFor",
  ),
  tool(
    "failing_job",
    `export const durable = true;
    export default async (input, ctx) => {
      await ctx.waitFor({ durationMs: 1_000 });
      throw new Error("This job always fails");
    };`,
    "waitFor",
  ),
  tool(
    "protocol_error_job",
    `export const durable = true;
    // More than the journal of a run may hold.
    export default async (input, ctx) => {
      for (let n = 0; n < 5_000; n += 1) void ctx.waitFor({ event: "x".repeat(200) });
      await ctx.waitFor({ event: "never" });
    };`,
    "waitFor",
  ),
  tool(
    "confirm_delete",
    `export default async ({ filename }, ctx) => {
      const { action, content } = await ctx.elicit({ message: "Delete it?", requestedSchema: form({ confirm: { type: "boolean" } }) });
      return action === "accept" && content.confirm ? "Deleted " + filename : "Kept " + filename;
    };`,
    ...(["elicit", "waitFor"] as const),
  ),
  tool(
    "multi_input",
    `export default async (input, ctx) => {
      const ask = (message, properties) => ctx.elicit({ message, requestedSchema: form(properties) });
      const [who, ok] = await Promise.all([
        ask("What is your name?", { name: { type: "string" } }), ask("Please confirm", { confirm: { type: "boolean" } }),
      ]);
      return who.content.name + " " + ok.content.confirm;
    };`,
    ...(["elicit", "waitFor"] as const),
  ),
  tool(
    "test_tool_with_task",
    `export const durable = true;
    export default async (input, ctx) => {
      const { content } = await ctx.elicit(${NAME_FORM});
      await ctx.waitFor({ durationMs: 100 });
      return "Hello, " + content.name + "!";
    };`,
    ...(["elicit", "waitFor"] as const),
  ),
];
