// Input and output schemas of markdown-to-html, with the descriptions that its callers see.
import * as z from "zod";

export const InputSchema = z.strictObject({
  markdown: z.string().describe("The Markdown text itself (not a file name or URL)"),
  gfm: z
    .boolean()
    .default(true)
    .describe("GitHub's additions: tables, task lists, strikethrough, footnotes and bare links"),
  breaks: z.boolean().default(false).describe("Turn every line end into <br>, as chats and comments do"),
  rawHtml: z
    .enum(["sanitize", "text", "remove"])
    .default("sanitize")
    .describe("HTML within the Markdown: keep what is harmless, show it as text, or remove it"),
  images: z.boolean().default(true).describe("Keep images; without them no server learns that the page was opened"),
  headingIds: z.boolean().default(false).describe("Give each heading an id, so that links can lead to it"),
  newTab: z.boolean().default(false).describe("Open links to other sites in a new tab"),
  document: z
    .boolean()
    .default(false)
    .describe("Return a whole HTML page with title and plain styles instead of a fragment"),
  title: z.string().max(500).optional().describe("Title of the page; the first heading when left out"),
  language: z
    .string()
    .regex(/^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$/, "Expected a BCP 47 tag such as en or pt-BR")
    .default("en")
    .describe("Language of the page, as a BCP 47 tag"),
});

export const OutputSchema = z.object({
  html: z.string().describe("Sanitized HTML: no script, no event handler, no style, no frame, and only safe links"),
  title: z.string().nullable().describe("Text of the first heading, if there is one"),
  headings: z
    .array(
      z.object({
        level: z.int().min(1).max(6).describe("1 for the largest to 6 for the smallest"),
        text: z.string().describe("The heading as plain text"),
        id: z.string().optional().describe("The heading's id in the HTML, if it has one"),
      }),
    )
    .describe("All headings in order: a table of contents"),
  wordCount: z.int().nonnegative().describe("Words of visible text"),
  removed: z
    .array(z.string())
    .describe("What the sanitizer took out, e.g. '<script>' or 'onclick of <a>'; empty when all was harmless"),
});

export type MarkdownInput = z.output<typeof InputSchema>;
export type MarkdownResult = z.output<typeof OutputSchema>;
