// Routes for operators and tools: health, metrics, the OpenAPI document and its reference page.

import { z } from "@hono/zod-openapi";
import type { App, ServerDependencies } from "../context.ts";
import { renderReference } from "../reference-page.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { ErrorSchema, OkSchema } from "../schemas/common.ts";
import { PrincipalSchema } from "../schemas/tenants.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const toBytes = (content: string): Bytes => new TextEncoder().encode(content);

const text = (type: string, description: string): object => ({
  content: { [type]: { schema: z.string() } },
  description,
});

export function addOperationRoutes(app: App, dependencies: ServerDependencies): void {
  const createDocument = (): object =>
    app.getOpenAPI31Document({
      openapi: "3.1.0",
      info: {
        title: "Glovebox",
        version: dependencies.version,
        description:
          "Hosts tools that the tenants of a service have written, and runs each call in an isolate of its own.",
      },
    });
  // Created once: it takes a tenth of a second, and needs no key.
  // Bytes, because each text becomes bytes of its own for each client that reads slowly.
  let document: { readonly bytes: Bytes; readonly page: Bytes; readonly csp: string } | undefined;
  const documentOf = (): NonNullable<typeof document> => {
    if (document === undefined) {
      const created = createDocument();
      const { html, csp } = renderReference(created);
      document = { bytes: toBytes(JSON.stringify(created)), page: toBytes(html), csp };
    }
    return document;
  };
  const ok = { 200: json(OkSchema, "The server runs") };

  addRoute(app, dependencies, "GET /healthz", { summary: "Whether the process runs", responses: ok }, (c, _input) =>
    respondWithJson(c, { ok: true }),
  );
  addRoute(
    app,
    dependencies,
    "GET /readyz",
    {
      summary: "Whether load balancers should send requests to the server",
      description:
        "It should not get requests while it stops, while its database cannot be read or written (a write is tried at most every 3 s), until it has reached its NATS server for the first time, and while it does not reach it and another replica does. While no replica reaches NATS any more, all of them are ready: all but calls works.",
      responses: { ...ok, 503: json(ErrorSchema, "It should not") },
    },
    async (c, _input) => {
      const reason = await dependencies.readiness.check();
      if (reason !== undefined)
        throw new RequestError("UNAVAILABLE", reason.message, { retryAfterSeconds: reason.retryAfterSeconds });
      return respondWithJson(c, { ok: true });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /metrics",
    {
      summary: "Metrics in the format of Prometheus",
      responses: { 200: text("text/plain", "The metrics") as never },
    },
    async (c, _input) =>
      c.body(await dependencies.metrics.registry.metrics(), 200, {
        "content-type": dependencies.metrics.registry.contentType,
      }),
  );
  addRoute(
    app,
    dependencies,
    "GET /openapi.json",
    {
      summary: "This document",
      responses: { 200: json(z.looseObject({ openapi: z.string() }), "The OpenAPI document") },
    },
    (c, _input) => c.body(documentOf().bytes, 200, { "content-type": "application/json" }),
  );
  addRoute(
    app,
    dependencies,
    "GET /reference",
    {
      summary: "The reference of this API as a page",
      responses: { 200: text("text/html", "The page") as never },
    },
    (c, _input) => {
      const { page, csp } = documentOf();
      return c.body(page, 200, { "content-type": "text/html; charset=utf-8", "content-security-policy": csp });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/me",
    {
      summary: "The key that sends the request",
      responses: { 200: json(PrincipalSchema, "The key") },
    },
    (c, _input) => {
      const { keyId, tenantId, scopes, expiresAt } = c.get("principal");
      return respondWithJson(c, { keyId, tenantId, scopes: [...scopes], expiresAt });
    },
  );
}
