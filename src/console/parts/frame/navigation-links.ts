// The pages that the console links to: those of a tenant, and those of the whole server.

export type NavLink = readonly [text: string, path: readonly string[], scope: string];

export const tenantLinks = (tenantId: string): readonly NavLink[] =>
  (
    [
      ["Overview", [], "usage:read"],
      ["Calls", ["calls"], "calls:read"],
      ["Runs", ["runs"], "calls:read"],
      ["Tools", ["tools"], "tools:read"],
      ["Approvals", ["approvals"], "tools:read"],
      ["Schedules", ["schedules"], "schedules:read"],
      ["Triggers", ["triggers"], "webhooks:read"],
      ["Webhooks", ["webhooks"], "webhooks:read"],
      ["Secrets", ["secrets"], "secrets:read"],
      ["Stored values", ["kv"], "kv:read"],
      ["Usage", ["usage"], "usage:read"],
      ["Keys", ["keys"], "keys:read"],
      ["Audit log", ["audit"], "audit:read"],
      ["Settings", ["settings"], "tenants:read"],
    ] as const
  ).map(([text, path, scope]) => [text, ["t", tenantId, ...path], scope]);

export const PLATFORM_LINKS: readonly NavLink[] = [
  ["Overview", [], "usage:read"],
  ["Calls", ["calls"], "calls:read"],
  ["Tenants", ["tenants"], "tenants:read"],
  ["Workers", ["workers"], "metrics:read"],
  ["Fleet", ["fleet"], "metrics:read"],
  ["Keys", ["keys"], "keys:read"],
  ["Audit log", ["audit"], "audit:read"],
];

/** Pages that the navigation does not list. */
const OTHER_PAGES: { readonly [page: string]: string } = { "new-tool": "New tool", sessions: "Your sessions" };

/**
 * Returns the title of a page for the browser's tab and history: `greet · Tools · acme · Glovebox`.
 * @param path as in the address
 */
export function titleOf(path: readonly string[]): string {
  const [first, second = ""] = path;
  const isTenant = first === "t";
  const [page, name] = isTenant ? path.slice(2) : path;
  const links = isTenant ? tenantLinks(second) : PLATFORM_LINKS;
  const found = links.find(([, target]) => target[isTenant ? 2 : 0] === page)?.[0];
  const label = found ?? OTHER_PAGES[page ?? ""];
  return [name, label, isTenant ? second : undefined, "Glovebox"].filter((part) => part !== undefined).join(" · ");
}
