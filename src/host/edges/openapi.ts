// Tools for whoever reads OpenAPI or plain JSON Schema: documents, nothing runs.
import type { JsonSchema, ToolDefinition } from "../../sandbox/definition.ts";
import { ERROR_CODES, type ErrorCode } from "../../sandbox/errors.ts";
import { embedSchema } from "./embed-schema.ts";

export interface OpenApiOptions {
  /** "Tools" unless stated. */
  readonly title?: string;
  /** Of the document, not of OpenAPI; "1.0.0" unless stated. */
  readonly version?: string;
  readonly description?: string;
  /** Where the host serves them. */
  readonly servers?: readonly { readonly url: string; readonly description?: string }[];
  /** The path of a tool's operation; `/tools/NAME` unless stated. */
  readonly pathOf?: (toolName: string) => string;
}

/** An OpenAPI 3.1.1 document, as plain JSON. */
export interface OpenApiDocument {
  readonly openapi: "3.1.1";
  readonly info: { readonly title: string; readonly version: string; readonly description?: string };
  readonly servers?: OpenApiOptions["servers"];
  readonly paths: { readonly [path: string]: unknown };
  readonly components: { readonly schemas: { readonly [name: string]: JsonSchema } };
}

const ERROR_SCHEMA: JsonSchema = {
  type: "object",
  description: "Why a call failed",
  required: ["code", "message", "userMessage", "recoverable"],
  properties: {
    code: { enum: Object.keys(ERROR_CODES) },
    message: {
      type: "string",
      description: "For developers, and for a model: what was wrong, where, what would be right",
    },
    userMessage: { type: "string", description: "Safe to show to anyone" },
    recoverable: { type: "boolean", description: "Whether trying again, or with another input, may succeed" },
    details: { type: "object" },
  },
};
/** Those of tools end with `.input` and `.output`. */
const ERROR_NAME = "ToolError";

const jsonOf = (ref: string): object => ({ "application/json": { schema: { $ref: `#/components/schemas/${ref}` } } });

/** What a failed call is answered with, by HTTP status. */
function failureResponses(): { readonly [status: string]: unknown } {
  const codes = Map.groupBy(Object.keys(ERROR_CODES) as ErrorCode[], (code) => String(ERROR_CODES[code].http));
  return Object.fromEntries(
    [...codes].map(([status, of]) => [status, { description: of.join(", "), content: jsonOf(ERROR_NAME) }]),
  );
}

/**
 * One `POST` for each tool: its arguments in, its output out, a failure as the error of its ToolResult with the status of its code. Who
 * serves it answers so.
 */
export function toOpenApi(definitions: readonly ToolDefinition[], options: OpenApiOptions = {}): OpenApiDocument {
  const { title = "Tools", version = "1.0.0", description, servers, pathOf = defaultPath } = options;
  const schemas: { [name: string]: JsonSchema } = { [ERROR_NAME]: ERROR_SCHEMA };
  const failures = failureResponses();
  const add = (tool: string, part: "input" | "output", schema: JsonSchema): object => {
    const name = `${tool}.${part}`;
    schemas[name] = embedSchema(schema, `#/components/schemas/${name}`, `urn:glovebox:tool:${name}`);
    return jsonOf(name);
  };
  const paths = Object.fromEntries(
    definitions.map(({ name, description: about, inputSchema, outputSchema, annotations }) => [
      pathOf(name),
      {
        post: {
          operationId: name,
          summary: annotations?.title ?? name,
          description: about,
          requestBody: { required: true, content: add(name, "input", inputSchema) },
          responses: {
            200: {
              description: "The tool's output",
              content: outputSchema === undefined ? { "application/json": {} } : add(name, "output", outputSchema),
            },
            ...failures,
          },
        },
      },
    ]),
  );
  return {
    openapi: "3.1.1",
    info: { title, version, ...(description === undefined ? {} : { description }) },
    ...(servers === undefined ? {} : { servers }),
    paths,
    components: { schemas },
  };
}

const defaultPath = (toolName: string): string => `/tools/${toolName}`;

/**
 * One JSON Schema (2020-12) of a call: `{ toolName, arguments }`, for any of these tools. What a model's output may be constrained to, or a
 * message be checked with.
 */
export function toCallSchema(definitions: readonly ToolDefinition[]): JsonSchema {
  const $defs: { [name: string]: JsonSchema } = {};
  const calls = definitions.map(({ name, description, inputSchema }): JsonSchema => {
    const key = `${name}.input`;
    $defs[key] = embedSchema(inputSchema, `#/$defs/${key}`, `urn:glovebox:tool:${key}`);
    return {
      type: "object",
      description,
      properties: { toolName: { const: name }, arguments: { $ref: `#/$defs/${key}` } },
      required: ["toolName", "arguments"],
      additionalProperties: false,
    };
  });
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...(calls.length === 0 ? { not: {} } : { oneOf: calls }),
    $defs,
  };
}
