// What the OpenAPI document says about the MCP endpoints: messages of JSON-RPC 2.0, headers, streams and errors. The endpoints themselves are in
// the host, and read the messages with its schemas.
import { z } from "@hono/zod-openapi";
import type { RequestDocumentation, ResponseDocumentation } from "../route-options.ts";
import { ErrorSchema } from "./common.ts";

const VersionSchema = z.literal("2.0");

const RequestIdSchema = z
  .union([z.string(), z.int()])
  .describe("Chosen by the sender, different from those of its requests that are running");

const ParamsSchema = z.looseObject({
  _meta: z
    .looseObject({})
    .optional()
    .describe("Revision 2026-07-28: the protocol version, the client's name and its capabilities, with each request"),
});

export const JsonRpcRequestSchema = z
  .strictObject({
    jsonrpc: VersionSchema,
    id: RequestIdSchema,
    method: z
      .string()
      .describe(
        "`tools/list`, `tools/call` and other methods of MCP. `initialize` begins a session of a revision of 2025; `subscriptions/listen` opens a stream of notifications in revision 2026-07-28",
      ),
    params: ParamsSchema.optional(),
  })
  .openapi("JsonRpcRequest");

export const JsonRpcNotificationSchema = z
  .strictObject({
    jsonrpc: VersionSchema,
    method: z.string().describe("Such as `notifications/cancelled`. It gets no response"),
    params: ParamsSchema.optional(),
  })
  .openapi("JsonRpcNotification");

export const JsonRpcResultSchema = z
  .strictObject({ jsonrpc: VersionSchema, id: RequestIdSchema, result: z.looseObject({}) })
  .openapi("JsonRpcResult");

export const JsonRpcErrorSchema = z
  .strictObject({
    jsonrpc: VersionSchema,
    id: z
      .union([z.string(), z.number()])
      .nullish()
      .describe("Id of the request. Null or missing for a message whose id could not be read"),
    error: z.looseObject({
      code: z
        .int()
        .describe(
          "-32700: invalid JSON. -32600: invalid message. -32601: unknown method. -32602: invalid parameters. -32001: unknown session. -32000: another error of the transport",
        ),
      message: z.string(),
      data: z.unknown().optional(),
    }),
  })
  .openapi("JsonRpcError");

const JsonRpcResponseSchema = z.union([JsonRpcResultSchema, JsonRpcErrorSchema]).openapi("JsonRpcResponse");

/** What a client sends: also answers to requests of the server, such as `elicitation/create`. */
const ClientMessageSchema = z
  .union([JsonRpcRequestSchema, JsonRpcNotificationSchema, JsonRpcResultSchema, JsonRpcErrorSchema])
  .openapi("JsonRpcMessage");

const StreamSchema = z
  .string()
  .describe(
    "Server-sent events. The data of each event is a JSON-RPC message, the last one the response to the request",
  );

const rpcError = (description: string): ResponseDocumentation => ({
  description,
  content: { "application/json": { schema: JsonRpcErrorSchema } },
});

const anyError = (description: string): ResponseDocumentation => ({
  description,
  content: { "application/json": { schema: z.union([ErrorSchema, JsonRpcErrorSchema]) } },
});

const RETRY_AFTER = z.object({ "Retry-After": z.string().describe("Seconds after which to try again") });

const SESSION = z.object({
  "Mcp-Session-Id": z
    .string()
    .optional()
    .describe(
      "Id of the session, in a session of a revision of 2025. Not in revision 2026-07-28, which has no sessions",
    ),
});

const common = {
  401: anyError("The key is missing or not valid, or has expired while the request was answered"),
  403: anyError("The key does not have the scope, or the Host or Origin header is not allowed"),
  429: { ...anyError("The tenant or the key has too many streams or requests open"), headers: RETRY_AFTER },
  500: anyError("The server failed"),
  503: {
    ...rpcError("The server is closing, or has too many requests or sessions of all callers open"),
    headers: RETRY_AFTER,
  },
};

const NO_SESSION = "There is no such tenant for this key, or no such session";

/** The headers of requests to an MCP endpoint. */
const sessionHeaders = {
  "mcp-protocol-version": z
    .string()
    .optional()
    .describe("Revision of the protocol, such as 2025-11-25. Required in revision 2026-07-28"),
  "mcp-session-id": z
    .string()
    .optional()
    .describe("The session, from the response to `initialize`. Only in sessions of a revision of 2025"),
};

export const MCP_POST: {
  readonly request: RequestDocumentation;
  readonly responses: { readonly [status: number]: ResponseDocumentation };
} = {
  request: {
    headers: z.object({
      ...sessionHeaders,
      "mcp-method": z.string().optional().describe("The method of the message. Required in revision 2026-07-28"),
      "mcp-name": z
        .string()
        .optional()
        .describe(
          "Name of the tool or prompt, URI of the resource, or id of the task that the message concerns. Required in revision 2026-07-28 where the message has one",
        ),
    }),
    body: { schema: ClientMessageSchema, description: "One message of JSON-RPC 2.0. Batches are rejected" },
    format: "json-rpc",
  },
  responses: {
    200: {
      description: "The response to a request: as JSON, or as a stream that has notifications before it",
      headers: SESSION,
      content: {
        "application/json": { schema: JsonRpcResponseSchema },
        "text/event-stream": { schema: StreamSchema },
      },
    },
    202: { description: "The message is a notification or a response, and was accepted" },
    400: rpcError(
      "The body is not JSON or not a valid message, headers and body differ, or the session or its version is missing",
    ),
    ...common,
    404: anyError(`${NO_SESSION}; or, in revision 2026-07-28, no such method`),
    406: rpcError("The client does not accept both JSON and streams, in a session of a revision of 2025"),
    408: rpcError("The body did not arrive in time"),
    413: rpcError("The body is too large"),
    415: rpcError("The body is not application/json, or has a Content-Encoding"),
  },
};

export const MCP_GET: typeof MCP_POST = {
  request: {
    headers: z.object(sessionHeaders),
  },
  responses: {
    200: {
      description: "The stream of notifications of the session",
      headers: SESSION,
      content: { "text/event-stream": { schema: StreamSchema } },
    },
    400: rpcError("The session or its version is missing"),
    ...common,
    404: anyError(NO_SESSION),
    405: rpcError("Revision 2026-07-28 has no such stream: send `subscriptions/listen`"),
    406: rpcError("The client does not accept streams"),
    409: rpcError("The session has such a stream already"),
  },
};

export const MCP_DELETE: typeof MCP_POST = {
  request: { headers: z.object(sessionHeaders) },
  responses: {
    200: { description: "The session has ended", headers: SESSION },
    400: rpcError("The session or its version is missing"),
    ...common,
    404: anyError(NO_SESSION),
    405: rpcError("Revision 2026-07-28 has no sessions"),
  },
};
