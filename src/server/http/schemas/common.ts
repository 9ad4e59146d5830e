// Schemas that the API's routes share: names and ids, pages of lists, times, errors.
import { z } from "@hono/zod-openapi";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../../sandbox/contract/tool-name.ts";
import type { IdKind } from "../../ids.ts";
import { TENANT_ID_PATTERN } from "../../records/tenants/tenants.ts";

export const TenantIdParamSchema = z.string().regex(TENANT_ID_PATTERN, {
  error: "Expected 1 to 63 of a-z 0-9 . _ -, beginning and ending with a letter or a digit",
});

export const ToolNameParamSchema = z.string().regex(TOOL_NAME_PATTERN, { error: `Expected ${TOOL_NAME_RULE}` });

export const VersionSchema = z.coerce.number().int().min(1);

export const IdSchema = z.string().regex(/^[a-z]+_[0-9a-z]{26}$/, { error: "Expected an id, such as call_…" });

/** Id of a call: also that of a nested one, which is its caller's with a number. */
export const CALL_ID_PATTERN = /^call_[0-9a-z]{26}(?:\.[0-9]{1,6}){0,33}$/;

export const CallIdSchema = z.string().regex(CALL_ID_PATTERN, { error: "Expected the id of a call: call_…" });

const MAX_PAGE = 200;

const CURSOR_ERROR = { error: "Expected the cursor of a page of this list, as `next` has it" };

const pageQuery = <Cursor extends z.ZodType>(cursor: Cursor) =>
  z.strictObject({ limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(50), cursor: cursor.optional() });

/** Query of a list whose cursors have a form. Another text would be compared with them, and return a page that means nothing. */
export const pageQueryOf = (pattern: RegExp) => pageQuery(z.string().regex(pattern, CURSOR_ERROR));

/** Query of a list whose cursors are ids. */
export const idPageQuery = (kind: IdKind) => pageQueryOf(new RegExp(`^${kind}_[0-9a-z]{26}$`));

/** Query of a list whose cursors are whole numbers. */
export const numberPageQuery = () =>
  pageQuery(
    z
      .string()
      .regex(/^\d{1,15}$/, CURSOR_ERROR)
      .transform(Number),
  );

/** Greatest time of a `Date`, in ms since 1970. */
export const MAX_TIME = 8.64e15;
export const TimeSchema = z.int().max(MAX_TIME).describe("Time in ms since 1970");

export const AnyJsonSchema = z.any().describe("Any JSON value");

export const ErrorSchema = z
  .strictObject({
    error: z.strictObject({
      code: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
      docs: z.string().describe("Path of the page about the code within the package `glovebox`"),
      requestId: z.string(),
    }),
  })
  .openapi("Error");

export const OkSchema = z.strictObject({ ok: z.literal(true) }).openapi("Ok");

/** What the document says about a list whose pages are bounded by their size. */
export const SHORT_PAGES = "A page of long items can have fewer of them than `limit`, although another one follows.";

/** A page of a list. `next` is the cursor of the next page; null on the last one. */
export const pageOf = <Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next: z.ZodNullable<z.ZodString> }> =>
  z.strictObject({ items: z.array(item), next: z.string().nullable() }) as never;
