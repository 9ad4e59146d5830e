// Describes tools as an OpenAPI document or as one JSON Schema. Creates documents only; nothing runs.
import * as z from "zod";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ERROR_CODES, type ErrorCode, ToolError, UNAVAILABLE_REASONS } from "../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { checkDefinitions } from "../routing/definitions.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { embedSchema } from "./embed-schema.ts";
import { toHttpStatus } from "./http-status.ts";

/** Options of {@link toOpenApi}. */
export interface OpenApiOptions {
  /** Title of the document. @default "Tools" */
  readonly title?: string | undefined;
  /** Version of the document, not of OpenAPI. @default "1.0.0" */
  readonly version?: string | undefined;
  readonly description?: string | undefined;
  /** URLs at which the host serves the tools. */
  readonly servers?: readonly { readonly url: string; readonly description?: string | undefined }[] | undefined;
  /** Returns the path of a tool's operation, which begins with `/` and must be unique. @default `/tools/NAME` */
  readonly pathOf?: ((toolName: string) => string) | undefined;
}

const OpenApiOptionsSchema = strictObject({
  title: z.string().default("Tools"),
  version: z.string().default("1.0.0"),
  description: z.string().optional(),
  servers: z.array(strictObject({ url: z.string().min(1), description: z.string().optional() })).optional(),
  pathOf: z
    .custom<(toolName: string) => string>((value) => typeof value === "function", "Expected a function")
    .default(() => defaultPath),
});

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
      description: "For developers and models: what is wrong, where, and what is expected",
    },
    userMessage: { type: "string", description: "Safe to show to anyone" },
    recoverable: { type: "boolean", description: "Whether a retry, possibly with a different input, can succeed" },
    details: {
      type: "object",
      properties: {
        reason: {
          description: `For TOOL_UNAVAILABLE one of: ${Object.keys(UNAVAILABLE_REASONS).join(", ")}`,
          type: "string",
        },
        retryAfterMs: { type: "number", description: "Time in ms after which a retry can succeed" },
      },
    },
  },
};
/** Name of the error schema. Names of tool schemas end with `.input` or `.output`. */
const ERROR_NAME = "ToolError";

const jsonOf = (ref: string): object => ({ "application/json": { schema: { $ref: `#/components/schemas/${ref}` } } });

const RETRY_HEADERS = {
  "Retry-After": { description: "Seconds after which to retry, if known", schema: { type: "integer" } },
};

/** Returns the responses of failed calls, by HTTP status. */
function failureResponses(): { readonly [status: string]: unknown } {
  const failures = Object.keys(ERROR_CODES).flatMap((code) =>
    code === "TOOL_UNAVAILABLE"
      ? Object.keys(UNAVAILABLE_REASONS).map((reason) => ({ code, details: { reason }, shown: `${code} (${reason})` }))
      : [{ code, details: {}, shown: code }],
  );
  const byStatus = Map.groupBy(failures, ({ code, details }) => toHttpStatus({ code: code as ErrorCode, details }));
  return Object.fromEntries(
    [...byStatus].map(([status, of]) => [
      String(status),
      {
        description: of.map(({ shown }) => shown).join(", "),
        ...(status === 429 || status === 503 ? { headers: RETRY_HEADERS } : {}),
        content: jsonOf(ERROR_NAME),
      },
    ]),
  );
}

/**
 * Returns an OpenAPI document with one `POST` operation for each tool: the request body contains its arguments, the response its output,
 * and a failed call returns the error of its ToolResult. A host that serves the document derives the response of a failed call from
 * {@link toHttpStatus} and {@link toRetryAfterSeconds}.
 * @throws {ToolError} PARAM_INVALID for an invalid definition or option, naming its path, and for a `pathOf` that throws, returns an
 * invalid path, or returns the same path twice
 * @example
 * ```ts
 * import { toOpenApi } from "glovebox";
 *
 * const inputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
 * const document = toOpenApi([{ name: "double", description: "Doubles a number", inputSchema }]);
 * console.log(Object.keys(document.paths)); // [ '/tools/double' ]
 * ```
 */
export function toOpenApi(definitions: readonly ToolDefinition[], options: OpenApiOptions = {}): OpenApiDocument {
  checkDefinitions(definitions, "definitions");
  const { title, version, description, servers, pathOf } = parseOptions(OpenApiOptionsSchema, options, "options");
  const toPath = createPaths(pathOf);
  const schemas: { [name: string]: JsonSchema } = { [ERROR_NAME]: ERROR_SCHEMA };
  const failures = failureResponses();
  const add = (tool: string, part: "input" | "output", schema: JsonSchema): object => {
    const name = `${tool}.${part}`;
    schemas[name] = embedSchema(schema, `#/components/schemas/${name}`, `urn:glovebox:tool:${name}`);
    return jsonOf(name);
  };
  const paths = Object.fromEntries(
    definitions.map(({ name, description: toolDescription, inputSchema, outputSchema, annotations }) => [
      toPath(name),
      {
        post: {
          operationId: name,
          summary: annotations?.title ?? name,
          description: toolDescription,
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

/** Returns a function that calls the host's `pathOf` for a tool and checks the result. */
function createPaths(pathOf: (toolName: string) => unknown): (toolName: string) => string {
  const taken = new Set<unknown>();
  return (toolName) => {
    const what = `options.pathOf(${JSON.stringify(toolName)})`;
    let path: unknown;
    try {
      path = pathOf(toolName);
    } catch (cause) {
      throw new ToolError("PARAM_INVALID", `${what}: The function threw`, { cause });
    }
    if (typeof path !== "string" || !path.startsWith("/")) {
      // A promise could still reject, which would end the process.
      ignoreOutcome(() => path);
      throw new ToolError("PARAM_INVALID", `${what}: Expected a path that begins with "/", got ${describeKind(path)}`);
    }
    if (taken.has(path))
      throw new ToolError(
        "PARAM_INVALID",
        `${what}: Expected a unique path, got the path of another tool, ${JSON.stringify(path)}`,
      );
    taken.add(path);
    return path;
  };
}

/**
 * Returns one JSON Schema (2020-12) of a call of any of these tools: `{ toolName, arguments }`. Use it to constrain a model's output or to
 * validate a message.
 * @throws {ToolError} PARAM_INVALID for an invalid definition, naming its path
 * @example
 * ```ts
 * import { toCallSchema } from "glovebox";
 *
 * const inputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
 * const schema = toCallSchema([{ name: "double", description: "Doubles a number", inputSchema }]);
 * console.log(schema.$schema); // https://json-schema.org/draft/2020-12/schema
 * ```
 */
export function toCallSchema(definitions: readonly ToolDefinition[]): JsonSchema {
  checkDefinitions(definitions, "definitions");
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
