// What the editor checks a tool with: the capabilities that the tenant allows, those of the live version, and the tenant's other tools.
import type { Release, Tenant, ToolVersion } from "glovebox/client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { GRANTABLE_CAPABILITY_NAMES } from "../../sandbox/contract/capability-names.ts";
import type { EditorToolSignature, ToolFacts } from "../editor/granted-types.ts";
import { collectTools } from "./collect.ts";
import { useResource } from "./resource.ts";
import { can, client, request } from "./session.ts";

const MAX_TOOLS = 10_000;
/** Names of tools that the code calls: `ctx.tools.price(…)`, `tools["a-b"](…)`. */
const USED = /\btools\s*(?:\?\.|\.|(?=\[))\s*(?:([A-Za-z_$][\w$]*)|\[\s*["']([\w.-]{1,128})["'])/g;
const MAX_USED = 100;
/** A tenant with so few tools gets the schemas of all of them, as soon as the code calls one. */
const FEW_TOOLS = 40;

const pathOf = (tenantId: string, tool: string): string =>
  `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}`;

/** Reads the schemas of the version that a call without an alias would run most likely. */
async function loadSignature(tenantId: string, name: string): Promise<EditorToolSignature> {
  const path = pathOf(tenantId, name);
  const { items } = await request<{ readonly items: readonly Release[] }>("GET", `${path}/releases`);
  const live = items.find(({ alias }) => alias === "live")?.versions ?? [];
  const version = live.toSorted((one, other) => other.weight - one.weight)[0]?.version;
  const found = await request<ToolVersion>("GET", version === undefined ? path : `${path}/versions/${version}`);
  const { description, inputSchema = {}, outputSchema } = found.definition as Partial<EditorToolSignature>;
  return { name, description, inputSchema, outputSchema };
}

function usedTools(code: string): readonly string[] {
  const names = new Set<string>();
  for (const [, plain, quoted] of code.matchAll(USED)) names.add(plain ?? quoted ?? "");
  return [...names].slice(0, MAX_USED);
}

/**
 * @param granted capabilities of the live version; undefined for a new tool
 * @param code the author's text: the schemas of the tools that it calls are loaded
 */
export function useToolFacts(tenantId: string, granted: readonly string[] | undefined, code: string): ToolFacts {
  const tenant = useResource(`policy ${tenantId}`, async (): Promise<readonly string[]> => {
    if (!can("tenants:read")) return GRANTABLE_CAPABILITY_NAMES;
    const found = (await client.tenant(tenantId).get()) as Tenant;
    return found.policy.capabilities as readonly string[];
  });
  const names = useResource(`tool names ${tenantId}`, () => collectTools(tenantId, MAX_TOOLS));
  const [signatures, setSignatures] = useState<ReadonlyMap<string, EditorToolSignature>>(new Map());
  const requested = useRef(new Set<string>());
  const known = useMemo(() => new Set((names.value ?? []).map(({ name }) => name)), [names.value]);
  const hasFew = known.size <= FEW_TOOLS && /\btools\b/.test(code);
  const used = hasFew ? [...known] : usedTools(code).filter((name) => known.has(name));
  useEffect(() => {
    for (const name of used) {
      if (requested.current.has(name)) continue;
      requested.current.add(name);
      loadSignature(tenantId, name).then(
        (signature) => setSignatures((before) => new Map(before).set(name, signature)),
        // Without its schemas, the tool takes and returns anything.
        () => {},
      );
    }
  }, [used.join()]);
  return useMemo(
    () => ({
      allowed: tenant.value ?? GRANTABLE_CAPABILITY_NAMES,
      granted: granted ?? [],
      tools: (names.value ?? []).map(({ name }) => signatures.get(name) ?? { name }),
    }),
    [tenant.value, names.value, signatures, granted?.join()],
  );
}
