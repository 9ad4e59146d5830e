// Reads and completes an HTML tree: headings, links, word count, and the differences between two trees.
import type { Element, Nodes, Root } from "hast";
import { ID_PREFIX } from "./allowed-html.ts";

export interface Heading {
  level: number;
  text: string;
  id?: string;
}

/** Elements of a tree in the order of the text; not recursive, since the tree may be deep. */
function* elementsOf(root: Root): Generator<Element> {
  const waiting: Nodes[] = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node.type === "element") yield node;
    pushChildren(node, waiting);
  }
}

/** Pushes the last child first, so that the first is popped first. One at a time, because a call has a limited number of arguments. */
function pushChildren(node: Nodes, waiting: Nodes[]): void {
  if ("children" in node) for (const child of node.children.toReversed()) waiting.push(child);
}

function textOf(node: Nodes): string {
  if (node.type === "text") return node.value;
  return "children" in node ? node.children.map(textOf).join("") : "";
}

const FOOTNOTES_ID = `${ID_PREFIX}footnote-label`;

/** With `addIds`, gives an id to each heading that has none. */
export function listHeadings(root: Root, addIds: boolean): Heading[] {
  const taken = listIds(root);
  const headings: Heading[] = [];
  for (const element of elementsOf(root)) {
    const level = /^h([1-6])$/.exec(element.tagName)?.[1];
    // remark-rehype adds a heading before footnotes that is visible to screen readers only.
    if (level === undefined || element.properties.id === FOOTNOTES_ID) continue;
    const text = textOf(element).trim().replace(/\s+/g, " ");
    if (addIds) element.properties.id ??= uniqueId(`${ID_PREFIX}${toSlug(text)}`, taken);
    const { id } = element.properties;
    headings.push({ level: Number(level), text, ...(typeof id === "string" ? { id } : {}) });
  }
  return headings;
}

function listIds(root: Root): Set<string> {
  const ids = new Set<string>();
  for (const { properties } of elementsOf(root)) if (typeof properties.id === "string") ids.add(properties.id);
  return ids;
}

/** GitHub's rule: letters, digits, - and _ stay, spaces become -, all in lower case. */
function toSlug(text: string): string {
  const slug = text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
  return slug === "" ? "section" : slug;
}

function uniqueId(wanted: string, taken: Set<string>): string {
  let id = wanted;
  for (let copy = 1; taken.has(id); copy += 1) id = `${wanted}-${copy}`;
  taken.add(id);
  return id;
}

const OTHER_SITE = /^(?:https?:)?\/\//i;

/** Leads `#id` links to the prefixed ids, and keeps links to other sites from passing on the reader or the page's rank. */
export function finishLinks(root: Root, newTab: boolean): void {
  const ids = listIds(root);
  for (const { tagName, properties } of elementsOf(root)) {
    if (tagName !== "a" || typeof properties.href !== "string") continue;
    const prefixed = `${ID_PREFIX}${decodeFragment(properties.href)}`;
    if (properties.href.startsWith("#") && ids.has(prefixed)) properties.href = `#${encodeURIComponent(prefixed)}`;
    if (!OTHER_SITE.test(properties.href)) continue;
    properties.rel = ["nofollow", "noopener", "noreferrer"];
    if (newTab) properties.target = "_blank";
  }
}

function decodeFragment(href: string): string {
  try {
    return decodeURIComponent(href.slice(1));
  } catch {
    return href.slice(1);
  }
}

export function countWords(root: Root): number {
  let words = 0;
  const waiting: Nodes[] = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node.type === "text") words += node.value.match(/[\p{L}\p{N}]+(?:['’.,-][\p{L}\p{N}]+)*/gu)?.length ?? 0;
    pushChildren(node, waiting);
  }
  return words;
}

const MAX_LISTED = 50;
const SHOWN_CHARACTERS = 60;

/** Names each kind of element and attribute that `before` has more of than `after`. */
export function listRemoved(before: Root, after: Root): string[] {
  const left = countParts(after);
  const removed = [...countParts(before)]
    .filter(([part, count]) => count > (left.get(part) ?? 0))
    .map(([part]) => (part.length > SHOWN_CHARACTERS ? `${part.slice(0, SHOWN_CHARACTERS)}…` : part));
  return removed.slice(0, MAX_LISTED);
}

/** Returns the HTML name of a property: the tree's `className`, `dataId` and `srcSet` are `class`, `data-id` and `srcset`. */
function toAttributeName(property: string): string {
  if (property === "className") return "class";
  return property.replace(/^(aria|data)(?=[A-Z])/, "$1-").toLowerCase();
}

function countParts(root: Root): Map<string, number> {
  const counts = new Map<string, number>();
  const count = (part: string) => counts.set(part, (counts.get(part) ?? 0) + 1);
  for (const { tagName, properties } of elementsOf(root)) {
    count(`<${tagName}>`);
    for (const [name, value] of Object.entries(properties)) {
      if (value !== null && value !== undefined) count(`${toAttributeName(name)} of <${tagName}>`);
    }
  }
  return counts;
}
