// Registers what the suite expects of a server in addition to tools: resources, templates, subscriptions, prompts and completions. A host
// registers them with the SDK's own methods in the option `register`.
import {
  acceptedContent,
  completable,
  inputRequired,
  type McpServer,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import * as z from "zod";
import { PIXEL } from "./tools.ts";

const said = (text: string) => ({ role: "user" as const, content: { type: "text" as const, text } });

function registerResources(mcp: McpServer): void {
  const registerText = (name: string, uri: string, description: string, text: string): void => {
    const mimeType = "text/plain";
    mcp.registerResource(name, uri, { description, mimeType }, () => ({ contents: [{ uri, mimeType, text }] }));
  };
  const text = "This is the content of the static text resource.";
  registerText("Static text", "test://static-text", "Text that stays", text);
  registerText("Watched", "test://watched-resource", "What can be subscribed to", "Watched");
  mcp.registerResource(
    "Static binary",
    "test://static-binary",
    { description: "A picture that stays", mimeType: "image/png" },
    ({ href }) => ({ contents: [{ uri: href, mimeType: "image/png", blob: PIXEL }] }),
  );
  mcp.registerResource(
    "Template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "Data by id", mimeType: "application/json" },
    ({ href }, { id }) => ({
      contents: [
        {
          uri: href,
          mimeType: "application/json",
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
        },
      ],
    }),
  );
  // Subscriptions of the 2025 revisions; the transport handles those of 2026-07-28.
  const subscribed = new Set<string>();
  mcp.server.registerCapabilities({ resources: { subscribe: true } });
  mcp.server.setRequestHandler("resources/subscribe", ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  mcp.server.setRequestHandler("resources/unsubscribe", ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
}

function registerPrompts(mcp: McpServer): void {
  mcp.registerPrompt("test_simple_prompt", { description: "A prompt without arguments" }, () => ({
    messages: [said("This is a simple prompt for testing.")],
  }));
  const places = ["paris", "park", "party"];
  const arg1 = completable(z.string().describe("First test argument"), (value) =>
    places.filter((place) => place.startsWith(value)),
  );
  mcp.registerPrompt(
    "test_prompt_with_arguments",
    { description: "A prompt with arguments", argsSchema: z.object({ arg1, arg2: z.string().describe("Second") }) },
    (args) => ({ messages: [said(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`)] }),
  );
  mcp.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "A prompt with a resource", argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri: uri }) => ({
      messages: [
        {
          role: "user",
          content: {
            type: "resource",
            resource: { uri, mimeType: "text/plain", text: "Embedded resource content for testing." },
          },
        },
        said("Please process the embedded resource above."),
      ],
    }),
  );
  mcp.registerPrompt("test_prompt_with_image", { description: "A prompt with a picture" }, () => ({
    messages: [
      { role: "user", content: { type: "image", data: PIXEL, mimeType: "image/png" } },
      said("Please analyze the image above."),
    ],
  }));
  mcp.registerPrompt("test_input_required_result_prompt", { description: "A prompt that asks first" }, ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, "user_context");
    if (answer !== undefined) return { messages: [said(`Context: ${String(answer.context)}`)] };
    const requestedSchema = {
      type: "object" as const,
      properties: { context: { type: "string" as const } },
      required: ["context"],
    };
    const message = "What context should the prompt use?";
    return inputRequired({ inputRequests: { user_context: inputRequired.elicit({ message, requestedSchema }) } });
  });
}

export function registerSurroundings(mcp: McpServer): void {
  registerResources(mcp);
  registerPrompts(mcp);
}
