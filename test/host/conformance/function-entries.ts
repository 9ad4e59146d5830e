// The rest of the table of public-entries.ts for functions and constructors: arguments other than options objects, and the reasons why some have
// no row.
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import { toCallSchema, toOpenApi } from "../../../src/host/adapters/openapi.ts";
import { checkConversation, repairConversation, trimConversation } from "../../../src/host/agent/conversation.ts";
import { createCodeApi } from "../../../src/host/code-mode/api/code-api.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import { readAnswer, readAnswerStream } from "../../../src/host/openai/answer.ts";
import { toChatMessages, toToolMessage } from "../../../src/host/openai/chat-messages.ts";
import { openaiChat, openaiResponses } from "../../../src/host/openai/models.ts";
import { toCallOutput, toResponsesInput } from "../../../src/host/openai/responses-input.ts";
import { toStrictSchema } from "../../../src/host/openai/strict-schema.ts";
import { ToolNames } from "../../../src/host/openai/tool-names.ts";
import { toOpenAITools } from "../../../src/host/openai/tools.ts";
import { digestOfTool } from "../../../src/host/pipeline/tool-digest.ts";
import { redactRecording } from "../../../src/host/recording/redact-recording.ts";
import { ToolInvoker } from "../../../src/host/routing/tool-invoker.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { SqliteRunStore } from "../../../src/host/runs/sqlite-run-store.ts";
import { openTool, stubCapability, undescribed } from "../../../src/host/testing/index.ts";
import type { PublicEntry } from "../../support/option-fuzz.ts";
import { makeTool } from "../../support/registered-tool.ts";

const given = (value: unknown): never => value as never;
const TOOL = { name: "add", description: "Adds", inputSchema: { type: "object" } };
const MESSAGES = [{ role: "user", content: "Add" }];
const CALL = { id: "c", kind: "function" } as const;
const RESULT = { success: true, output: 1 };
const LIMITS = { textChars: "number", mediaBytes: "number" } as const;
const CLIENT = { responses: { create() {} }, chat: { completions: { create() {} } } };
const TOOL_FOLDER = fileURLToPath(new URL("../../../tools/csv-stats", import.meta.url));
const RUNS_FILE = join(tmpdir(), `glovebox-conformance-runs-${process.pid}.sqlite`);
function openRunsFile(options: { readonly path: string }): void {
  new SqliteRunStore(options)[Symbol.dispose]();
  rmSync(RUNS_FILE);
}
const closing = async (made: AsyncDisposable): Promise<void> => await made[Symbol.asyncDispose]();

/** Built for the Glovebox of {@link publicEntries}. */
export function functionEntries(glovebox: Glovebox): readonly PublicEntry[] {
  type Row = readonly [name: string, options: PublicEntry["options"], valid: unknown, call: PublicEntry["call"]];
  const { router } = glovebox;
  const rows: readonly Row[] = [
    [
      "createRuns(glovebox)",
      "object",
      glovebox,
      (host) => closing(createRuns(given(host), { store: new MemoryRunStore(), pollMs: 0 })),
    ],
    [
      "createCodeMode(glovebox)",
      "object",
      glovebox,
      (host) => closing(createCodeMode(given(host), { typeCheck: false })),
    ],
    ["new ToolInvoker(router)", "object or function", router, (own) => void new ToolInvoker(given(own))],
    ["redactRecording(value)", "json", {}, (value) => void redactRecording(given(value))],
    ["new SqliteRunStore(options)", { path: "text" }, { path: RUNS_FILE }, (own) => openRunsFile(given(own))],
    ["toAISDKTools(host)", "object", glovebox, (host) => void toAISDKTools(given(host))],
    ["toAgentsTools(host)", "object", glovebox, (host) => void toAgentsTools(given(host))],
    ["createMcpHandler(host)", "object", glovebox, (host) => closing(createMcpHandler(given(host)))],
    ["serveMcpStdio(host)", "object", glovebox, (host) => closing(serveMcpStdio(given(host)))],
    ["toCallSchema(definitions)", "list", [TOOL], (list) => void toCallSchema(given(list))],
    ["toOpenApi(definitions)", "list", [TOOL], (list) => void toOpenApi(given(list))],
    ["toOpenAITools(definitions)", "list", [TOOL], (list) => void toOpenAITools(given(list), { api: "responses" })],
    ["createCodeApi(definitions)", "list", [TOOL], (list) => void createCodeApi(given(list))],
    ["digestOfTool(tool)", "object", makeTool(), (tool) => void digestOfTool(given(tool))],
    ["checkConversation(messages)", "list", MESSAGES, (messages) => void checkConversation(given(messages))],
    ["repairConversation(messages)", "list", MESSAGES, (messages) => void repairConversation(given(messages))],
    ["trimConversation(messages)", "list", MESSAGES, (messages) => void trimConversation(given(messages), () => true)],
    [
      "trimConversation(messages, fits)",
      "function",
      () => true,
      (fits) => void trimConversation(given(MESSAGES), given(fits)),
    ],
    ["toChatMessages(messages)", "list", MESSAGES, (messages) => void toChatMessages(given(messages))],
    [
      "toChatMessages(messages, tools)",
      "object",
      toOpenAITools([TOOL], { api: "chat" }),
      (tools) => void toChatMessages([], given(tools)),
    ],
    ["toResponsesInput(messages)", "list", MESSAGES, (messages) => void toResponsesInput(given(messages))],
    [
      "toResponsesInput(messages, tools)",
      "object",
      toOpenAITools([TOOL], { api: "responses" }),
      (tools) => void toResponsesInput([], given(tools)),
    ],
    ["toCallOutput(call)", "object", CALL, (call) => void toCallOutput(given(call), given(RESULT))],
    ["toCallOutput(call, result)", "object", RESULT, (result) => void toCallOutput(CALL, given(result))],
    [
      "toCallOutput(call, result, limits)",
      LIMITS,
      {},
      (limits) => void toCallOutput(CALL, given(RESULT), given(limits)),
    ],
    ["toToolMessage(call)", "object", CALL, (call) => void toToolMessage(given(call), given(RESULT))],
    ["toToolMessage(call, result)", "object", RESULT, (result) => void toToolMessage(CALL, given(result))],
    [
      "toToolMessage(call, result, limits)",
      LIMITS,
      {},
      (limits) => void toToolMessage(CALL, given(RESULT), given(limits)),
    ],
    ["openaiChat(client)", "object", CLIENT, (client) => void openaiChat(given(client), { model: "m" })],
    ["openaiResponses(client)", "object", CLIENT, (client) => void openaiResponses(given(client), { model: "m" })],
    ["readAnswer(response)", "object", { output: [] }, (response) => void readAnswer(response)],
    [
      "readAnswer(response, tools)",
      "object",
      toOpenAITools([TOOL], { api: "chat" }),
      (tools) => void readAnswer({ choices: [] }, given(tools)),
    ],
    [
      "readAnswerStream(stream)",
      "object",
      (async function* () {})(),
      (stream) => void readAnswerStream(given(stream), { api: "chat" }),
    ],
    ["toStrictSchema(schema)", "object", { type: "object" }, (schema) => void toStrictSchema(given(schema))],
    ["new ToolNames(toolNames)", "list", ["add"], (names) => void new ToolNames(given(names))],
    ["new ToolNames(toolNames, namespaces)", "list", ["crm"], (names) => void new ToolNames([], given(names))],
    ["stubCapability(name, answer)", "function", () => 1, (answer) => void stubCapability("lookUp", given(answer))],
    ["stubCapability(name)", "text", "lookUp", (name) => void stubCapability(given(name))],
    ["openTool(path)", "text or object", TOOL_FOLDER, async (path) => await closing(await openTool(given(path)))],
    ["undescribed(schema)", "object", {}, (schema) => void undescribed(schema)],
  ];
  return rows.map(([name, options, valid, call]) => ({ name, where: "", options, valid: () => valid, call }));
}

const MESSAGE = "is converted as it is, so that any failure has a message";
const GUEST = "is used in the guest";
/** Functions and arguments without rows, with the reason. */
export const FUNCTIONS_WITHOUT_ROW: { readonly [name: string]: string } = {
  content: GUEST,
  text: GUEST,
  image: GUEST,
  audio: GUEST,
  resource: GUEST,
  resourceLink: GUEST,
  defineTool: GUEST,
  toHttpStatus: MESSAGE,
  toRetryAfterSeconds: MESSAGE,
  createToolFailureMessage: MESSAGE,
  "new ToolError": "is an error: another one in its place would hide what has failed",
  unavailable: "makes a ToolError",
  "new ApiError": "is thrown by the client",
  "toJson(value)": "takes any value",
  "redact(value)": "takes any value",
  "new ToolRouter(policies)": "is internal: policies of another router",
  "parseRecording(value)": "is parsed by a strict schema; test/host/recording/replay.test.ts",
  "createFileIdempotencyStore(argument 2)": "is rejected, whatever it is; test/host/agent/agent-options.test.ts",
  "createMemoryIdempotencyStore(argument 1)": "is rejected, whatever it is; test/host/agent/agent-options.test.ts",
  "allOf(argument 1)": "takes conditions; test/host/agent/agent-options.test.ts",
  "anyOf(argument 1)": "takes conditions; test/host/agent/agent-options.test.ts",
};
