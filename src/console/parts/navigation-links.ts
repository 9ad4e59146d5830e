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
