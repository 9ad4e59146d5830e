// Fetches a page or the response of an API. The host's egress rules decide which addresses are allowed.
import { defineTool } from "glovebox/tool";
import * as z from "zod";
import { readBody } from "./body.ts";

const MAX_BYTES = 1_000_000;

export default defineTool({
  name: "http-get",
  description:
    "Fetches a URL with GET and returns status, chosen headers and the body: JSON as JSON, text as text, anything else as " +
    "Base64. Redirects are followed as far as the host's rules allow. Use it to read a page, a file or the answer of an API.",
  inputSchema: z.strictObject({
    url: z
      .url({ protocol: /^https?$/ })
      .max(8_192)
      .describe("Absolute http or https URL"),
    headers: z
      .record(z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "Expected the name of a header"), z.string().max(8_192))
      .optional()
      .describe('Headers to send, e.g. {"accept": "application/json"}'),
    as: z
      .enum(["auto", "json", "text", "base64"])
      .default("auto")
      .describe("How to return the body; auto goes by the answer's content-type"),
    maxBytes: z
      .int()
      .min(1)
      .max(MAX_BYTES)
      .default(200_000)
      .describe("Bytes of the body that are read; of more the rest is left, and truncated is true"),
  }),
  outputSchema: z.object({
    status: z.int().describe("HTTP status; 4xx and 5xx are answers too, not failures of the tool"),
    ok: z.boolean().describe("Whether the status is 200 to 299"),
    url: z.string().describe("Where the answer came from, after redirects"),
    contentType: z.string().nullable(),
    headers: z.record(z.string(), z.string()).describe("Headers of the answer, but for those that set cookies"),
    body: z.unknown().describe("JSON, text or Base64, as bodyType says"),
    bodyType: z.enum(["json", "text", "base64"]),
    bytes: z.int().nonnegative().describe("Bytes of the body that were read"),
    truncated: z.boolean(),
  }),
  capabilities: { fetch: true },
  annotations: { title: "HTTP GET", readOnlyHint: true, idempotentHint: true, openWorldHint: true },
  async execute({ url, headers, as, maxBytes }, ctx) {
    try {
      const response = await fetch(url, { ...(headers === undefined ? {} : { headers }), signal: ctx.signal });
      const contentType = response.headers.get("content-type");
      const body = await readBody(response, { as, maxBytes, contentType });
      const answered = Object.fromEntries([...response.headers].filter(([name]) => name !== "set-cookie"));
      const { status, ok } = response;
      return { status, ok, url: response.url, contentType, headers: answered, ...body };
    } catch (error) {
      // Messages such as "fetch failed" are not specific; the cause has the reason.
      throw error instanceof TypeError && error.cause instanceof Error ? error.cause : error;
    }
  },
});
