// Markdown → syntax tree → HTML tree → sanitized tree → text. Only the sanitized tree is ever made into text, and nothing
// from the input is added to it afterwards, so the result holds no more than the table in allowed-html.ts lets through.
import type { Root, Text } from "hast";
import rehypeRaw from "rehype-raw";
import rehypeSanitize from "rehype-sanitize";
import rehypeStringify from "rehype-stringify";
import remarkBreaks from "remark-breaks";
import remarkGfm from "remark-gfm";
import remarkParse from "remark-parse";
import remarkRehype from "remark-rehype";
import { type PluggableList, unified } from "unified";
import { createAllowedHtml } from "./allowed-html.ts";
import { countWords, finishLinks, listHeadings, listRemoved } from "./html-tree.ts";
import { toPage } from "./page.ts";
import type { MarkdownInput, MarkdownResult } from "./schemas.ts";

/** @throws {Error} when the text is nested too deeply to be handled */
export function convertMarkdown(input: MarkdownInput): MarkdownResult {
  try {
    const found = parseMarkdown(input);
    const clean = sanitizeHtml(found, input.images);
    const headings = listHeadings(clean, input.headingIds);
    finishLinks(clean, input.newTab);
    const fragment = unified().use(rehypeStringify).stringify(clean);
    const title = headings[0]?.text ?? null;
    const html = input.document ? toPage(fragment, input.title ?? title ?? "Untitled", input.language) : fragment;
    return { html, title, headings, wordCount: countWords(clean), removed: listRemoved(found, clean) };
  } catch (error) {
    // Every step recurses into nested lists, quotes and elements.
    if (error instanceof RangeError) throw new Error("The Markdown is nested too deeply to be converted");
    throw error;
  }
}

function parseMarkdown({ markdown, gfm, breaks, rawHtml }: MarkdownInput): Root {
  const syntax: PluggableList = [...(gfm ? [remarkGfm] : []), ...(breaks ? [remarkBreaks] : [])];
  const html = unified()
    .use(remarkParse)
    .use(syntax)
    .use(remarkRehype, {
      // The sanitizer adds the prefix to ids, footnotes' among them.
      clobberPrefix: "",
      allowDangerousHtml: rawHtml !== "remove",
      ...(rawHtml === "text" ? { handlers: { html: showAsText } } : {}),
    })
    .use(rawHtml === "sanitize" ? [rehypeRaw] : []);
  const text = markdown.replace(/^\uFEFF/, "");
  return html.runSync(html.parse(text));
}

function showAsText(_state: unknown, node: { readonly value: string }): Text {
  return { type: "text", value: node.value };
}

function sanitizeHtml(tree: Root, images: boolean): Root {
  return unified().use(rehypeSanitize, createAllowedHtml(images)).runSync(tree);
}
