// Runs the official MCP conformance suite for servers: every scenario that a revision requires.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REVISIONS } from "./expectations.ts";
import { expectSuitePasses } from "./run-suite.ts";
import { type SuiteServer, startSuiteServer } from "./suite-server.ts";
import { PIXEL, SILENCE } from "./tools.ts";

/** Number of scored scenarios of each set, at the installed version of the suite. */
const SCORED = { "2025-11-25": 30, "2026-07-28": 37 } as const;

let server: SuiteServer;
beforeAll(async () => {
  server = await startSuiteServer();
});
afterAll(async () => await server[Symbol.asyncDispose]());

/** The suite checks the kinds of content only. These tests check the content itself. */
describe.for(["auto", "legacy"] as const)("the suite's server with the SDK's client (%s)", (mode) => {
  let client: Client;
  beforeAll(async () => {
    const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
    client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      const schema = (params as { readonly requestedSchema: { readonly properties: Record<string, unknown> } })
        .requestedSchema;
      const answers: Record<string, string | number | boolean | string[]> = {
        name: "Alice",
        color: "red",
        ok: true,
        username: "alice",
        email: "alice@example.com",
        untitledSingle: "option2",
        titledMulti: ["value1", "value3"],
      };
      const content = Object.fromEntries(
        Object.keys(schema.properties).flatMap((key) => (answers[key] === undefined ? [] : [[key, answers[key]]])),
      );
      return { action: "accept", content };
    });
    client.setRequestHandler("sampling/createMessage", async () => ({
      role: "assistant",
      model: "m",
      content: { type: "text", text: "Paris" },
    }));
    client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///work" }] }));
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
  });
  afterAll(async () => await client.close());

  const call = async (name: string, args: Record<string, unknown> = {}) =>
    await client.callTool({ name, arguments: args });
  const text = (said: string) => [{ type: "text", text: said }];

  test.for([
    ["test_simple_text", {}, "This is a simple text response for testing."],
    ["test_sampling", { prompt: "Where?" }, "LLM response: Paris"],
    [
      "test_elicitation",
      { message: "Who?" },
      'User response: action=accept, content={"username":"alice","email":"alice@example.com"}',
    ],
    ["test_elicitation_sep1034_defaults", {}, 'Elicitation completed: action=accept, content={"name":"Alice"}'],
    [
      "test_elicitation_sep1330_enums",
      {},
      'Elicitation completed: action=accept, content={"untitledSingle":"option2","titledMulti":["value1","value3"]}',
    ],
    ["test_input_required_result_elicitation", {}, "Hello, Alice!"],
    ["test_input_required_result_sampling", {}, "Paris"],
    ["test_input_required_result_list_roots", {}, "Roots: file:///work"],
    ["test_input_required_result_request_state", {}, "state-ok"],
    ["test_input_required_result_multiple_inputs", {}, "Paris Alice of file:///work"],
    ["test_input_required_result_multi_round", {}, "Alice likes red"],
    ["test_missing_capability", {}, "Paris"],
    ["test_argument_in_header", { region: "Östergötland" }, "In Östergötland"],
    [
      "json_schema_2020_12_tool",
      { contactMethod: "phone", phone: "1" },
      'JSON Schema 2020-12 tool called with: {"contactMethod":"phone","phone":"1"}',
    ],
  ] as const)("%s answers %j with %s", async ([name, args, said]) => {
    const result = await call(name, args);
    expect(result.content).toEqual(text(said));
    expect(result.isError ?? false).toBe(false);
  });

  test("returns the content of the tools", async () => {
    expect((await call("test_image_content")).content).toEqual([{ type: "image", data: PIXEL, mimeType: "image/png" }]);
    expect((await call("test_audio_content")).content).toEqual([
      { type: "audio", data: SILENCE, mimeType: "audio/wav" },
    ]);
    expect((await call("test_embedded_resource")).content).toEqual([
      {
        type: "resource",
        resource: {
          uri: "test://embedded-resource",
          mimeType: "text/plain",
          text: "This is an embedded resource content.",
        },
      },
    ]);
    const json = JSON.stringify({ test: "data", value: 123 });
    expect((await call("test_multiple_content_types")).content).toEqual([
      { type: "text", text: "Multiple content types test:" },
      { type: "image", data: PIXEL, mimeType: "image/png" },
      {
        type: "resource",
        resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: json },
      },
    ]);
  });

  test("returns tool errors, rejects invalid arguments, and answers an unknown tool with an error", async () => {
    const failed = await call("test_error_handling");
    expect(failed.isError).toBe(true);
    expect(failed.content).toMatchObject([{ text: expect.stringContaining("intentionally returns an error") }]);
    const rejected = await call("json_schema_2020_12_tool", { contactMethod: "phone", email: "a" });
    expect(rejected.isError).toBe(true);
    await expect(call("there_is_no_such_tool")).rejects.toThrow("Unknown tool");
  });

  test("reports progress in order", async () => {
    const seen: unknown[] = [];
    const onprogress = (progress: unknown): void => void seen.push(progress);
    await client.callTool({ name: "test_tool_with_progress", arguments: {} }, { onprogress });
    expect(seen).toEqual([0, 50, 100].map((progress) => expect.objectContaining({ progress, total: 100 })));
  });

  test("serves the host's resources, prompts and completions", async () => {
    const read = await client.readResource({ uri: "test://template/123/data" });
    expect(read.contents).toMatchObject([{ text: '{"id":"123","templateTest":true,"data":"Data for ID: 123"}' }]);
    const prompt = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } });
    expect(prompt.messages).toMatchObject([{ content: { text: "Prompt with arguments: arg1='a', arg2='b'" } }]);
    const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" } as const;
    const { completion } = await client.complete({ ref, argument: { name: "arg1", value: "par" } });
    expect(completion.values).toEqual(["paris", "park", "party"]);
  });
});

// Runs last, because it leaves calls behind that wait for answers.
describe("the conformance suite for servers", () => {
  test.for(REVISIONS)("passes the requirements of %s", async (revision) => {
    await expectSuitePasses("server", revision, ["--url", server.url], SCORED[revision]);
  });
});
