// Compares URLPattern in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../support/guest.ts";

interface Case {
  readonly pattern: string | { readonly [part: string]: string };
  readonly base?: string;
  readonly url: string;
}

test.for<Case>([
  { pattern: { pathname: "/books/:id" }, url: "https://example.com/books/5?x=1" },
  { pattern: { pathname: "/books/:id(\\d+)" }, url: "https://example.com/books/five" },
  { pattern: { pathname: "/a/*/c" }, url: "https://example.com/a/b/b/c" },
  { pattern: { pathname: "/a{/:b}?" }, url: "https://example.com/a" },
  { pattern: { hostname: "*.example.com" }, url: "https://api.example.com/" },
  { pattern: "https://:sub.example.com/*", url: "https://api.example.com/x/y" },
  { pattern: "/x/:y", base: "https://example.com", url: "https://example.com/x/z#hash" },
  { pattern: { search: "?q=:term", hash: "#:part" }, url: "https://example.com/?q=cats#top" },
  { pattern: { protocol: "http{s}?", port: "80*" }, url: "http://example.com:8080/" },
])("URLPattern matches %j", (given) =>
  expectLikeNode(({ pattern, base, url }) => {
    const made = base === undefined ? new URLPattern(pattern as never) : new URLPattern(pattern as string, base);
    const { protocol, hostname, port, pathname, search, hash, hasRegExpGroups } = made;
    const found = made.exec(url) as { readonly [part: string]: { readonly groups?: object } } | null;
    const parts = ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash"];
    const groups = parts.map((part) => found?.[part]?.groups);
    return [protocol, hostname, port, pathname, search, hash, hasRegExpGroups, made.test(url), groups];
  }, given),
);

test("URLPattern rejects invalid patterns", async () => {
  const run = "() => { try { new URLPattern({ pathname: '/(' }); } catch (error) { return error.name; } }";
  expect(await inGuest(run)).toBe("TypeError");
});
