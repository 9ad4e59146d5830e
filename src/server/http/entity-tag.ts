// Entity tags of resources that requests replace, and the condition with which a client changes only what it has read (RFC 9110, section 13.1.1).
import { createHash } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { toCanonicalJson } from "../../host/json/canonical-json.ts";
import type { AppEnv } from "./context.ts";
import { RequestError } from "./request-error.ts";
import { respondWithJson } from "./responses.ts";

/** Characters of a tag: 132 bits of a SHA-256. */
const TAG_LENGTH = 22;
/** A list of entity tags, or an asterisk. */
const IF_MATCH = /^(?:\*|(?:W\/)?"[\x21\x23-\x7e]{0,200}"(?:[ \t]*,[ \t]*(?:W\/)?"[\x21\x23-\x7e]{0,200}"){0,31})$/;

export const EtagSchema = z
  .string()
  .describe(
    "Entity tag, for `If-Match`. It changes with what a request can change, and not with what the server counts",
  );

/** What the document says about the condition of a change. */
export const IF_MATCH_HEADERS = z.object({
  "if-match": z
    .string()
    .optional()
    .describe(
      "The `etag` that the client has read. If the resource has changed since, the request has no effect and is answered with 412",
    ),
});

/** Adds the entity tag to what the API shows of a resource. @param names the fields that requests can change */
export function withEtag<Shown extends object>(
  shown: Shown,
  names: readonly (keyof Shown)[],
): Shown & { readonly etag: string } {
  const text = toCanonicalJson(names.map((name) => shown[name] ?? null));
  return { ...shown, etag: `"${createHash("sha256").update(text).digest("base64url").slice(0, TAG_LENGTH)}"` };
}

/**
 * Checks the condition of a change. Call it in the transaction of the change.
 * @param etag of the resource as it is now; undefined if there is none
 * @throws {RequestError} PRECONDITION_FAILED if the client has read another state; INVALID for a header that is not a list of entity tags
 */
export function checkIfMatch(c: Context<AppEnv>, etag: string | undefined): void {
  const header = c.req.header("if-match")?.trim();
  if (header === undefined) return;
  if (!IF_MATCH.test(header))
    throw new RequestError("INVALID", 'If-Match: Expected entity tags in quotes, such as "3q2-7w", or *');
  // A weak tag never matches.
  const isMatch = header === "*" || header.split(",").some((tag) => tag.trim() === etag);
  if (etag !== undefined && isMatch) return;
  const what = etag === undefined ? "There is no such resource" : "The resource has changed since it was read";
  throw new RequestError(
    "PRECONDITION_FAILED",
    `${what}, so the request had no effect. Read it again, and repeat the change`,
    {
      headers: etag === undefined ? {} : { etag },
    },
  );
}

/** Responds with a resource and its entity tag. */
export function respondWithEtag<Shown extends { readonly etag: string | null }>(
  c: Context<AppEnv>,
  shown: Shown,
  status: 200 | 201 = 200,
): Response {
  if (shown.etag !== null) c.header("etag", shown.etag);
  return respondWithJson(c, shown, status);
}
