// Builds the documentation site from docs/ and from the documents at the repository's root. The same links work on the site, in the
// repository and in the npm package.
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vitepress";

const DOCS = new URL("..", import.meta.url);

/** The list of pages, which also has their order. */
const INDEX = readFileSync(new URL("index.md", DOCS), "utf8");

/** Returns the position of a page in the list of pages; pages that it does not name, such as generated ones, come last. */
function orderOf(page: string): number {
  const at = INDEX.indexOf(`](${page})`);
  return at < 0 ? INDEX.length : at;
}

/** Returns the sidebar entries of a folder of docs/ in the order of the list of pages: the first heading of each page is its title. */
function toItems(folder: string): { text: string; link: string }[] {
  return readdirSync(new URL(`${folder}/`, DOCS))
    .filter((name) => name.endsWith(".md") && name !== "index.md" && name !== "README.md")
    .sort()
    .sort((a, b) => orderOf(`${folder}/${a}`) - orderOf(`${folder}/${b}`))
    .map((name) => {
      const text = readFileSync(new URL(`${folder}/${name}`, DOCS), "utf8");
      const title = /^# (.+)$/m.exec(text)?.[1] ?? name;
      return { text: title.replaceAll("`", ""), link: `/${folder}/${name.replace(/\.md$/, "")}` };
    });
}

export default defineConfig({
  title: "Glovebox",
  description: "Runs tools that your team did not write",
  srcExclude: ["node_modules/**"],
  // Links to source files lead into the repository. test/docs.test.ts checks that those files exist.
  ignoreDeadLinks: [/\.(ts|py|json)$/, /\/(src|test|benchmarks|tools|examples)\//],
  markdown: {
    // generate.ts copies the documents at the repository's root into project/.
    config: (markdown) => {
      markdown.core.ruler.push("project-links", ({ tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet("href");
          const [, name] =
            /^(?:\.\.\/)+(ARCHITECTURE|CHANGELOG|CONTRIBUTING|SECURITY|THREATS|examples\/README)\.md/.exec(
              href ?? "",
            ) ?? [];
          if (name !== undefined) token.attrSet("href", `/project/${name.replace("/README", "")}.md`);
        }
      });
    },
  },
  themeConfig: {
    search: { provider: "local" },
    nav: [
      { text: "Guides", link: "/guides/multi-tenant-backend" },
      { text: "Reference", link: "/reference/limits" },
    ],
    sidebar: [
      { text: "Tutorials", items: toItems("tutorials") },
      { text: "How-to guides", items: toItems("guides") },
      {
        text: "Reference",
        items: [
          ...toItems("reference"),
          { text: "Error codes, one by one", link: "/reference/errors/" },
          { text: "API", link: "/reference/api/README" },
          { text: "Contract and its tests", link: "/contract" },
          { text: "npm packages", link: "/npm-compatibility" },
        ],
      },
      {
        text: "Explanation",
        items: [
          { text: "Architecture", link: "/project/ARCHITECTURE" },
          { text: "Decisions", link: "/decisions/", collapsed: true, items: toItems("decisions") },
          { text: "Threats", link: "/project/THREATS" },
          { text: "Security policy", link: "/project/SECURITY" },
          { text: "Contributing", link: "/project/CONTRIBUTING" },
          { text: "Changelog", link: "/project/CHANGELOG" },
        ],
      },
    ],
  },
});
