// Options of a route: its input, its responses, and its part of the OpenAPI document.
import type { RouteConfig } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { z } from "zod";
import type { AppEnv } from "./context.ts";

const STREAM_TYPES = ["text/event-stream", "application/x-ndjson", "text/csv"] as const;

/** Returns whether a response may stay open for long, and is not only a value. */
export const isStreamedResponse = ({ headers }: Response): boolean =>
  STREAM_TYPES.some((type) => headers.get("content-type")?.startsWith(type) === true);

export type ResponseDocumentation = RouteConfig["responses"][number];

/** What the document says about a request whose headers and body the handler reads by itself. Nothing of it is checked before. */
export interface RequestDocumentation {
  readonly headers?: z.ZodObject;
  readonly body?: { readonly schema: z.ZodType; readonly description: string };
  /**
   * How a body that is not valid is answered. `json-rpc`: with an error of JSON-RPC. `signed`: as one without a valid signature, before it is
   * parsed.
   */
  readonly format?: "json-rpc" | "signed";
}

export interface RouteOptions<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> {
  readonly summary: string;
  readonly description?: string;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  /** Largest body in bytes, if it is less than the server's. */
  readonly maxBodyBytes?: number;
  readonly request?: RequestDocumentation;
  /** Whether the handler checks `If-Match`. Other routes reject a change with this header, which would have no effect. */
  readonly isConditional?: boolean;
  /** Responses in addition to those that all routes with such a request have, and in place of them. */
  readonly responses: RouteConfig["responses"];
  /**
   * Which requests may get a response that stays open. They are limited in number, and their streams end when their sender is revoked or
   * expires.
   */
  readonly streams?: (c: Context<AppEnv>) => boolean;
}
