// `tenancy: "single" | "multi"` in every public method: a missing tenant and an unexpected one are errors that name the option, never a
// default. Nothing runs and nothing changes then.
import { afterAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { openTool } from "../../../src/host/testing/index.ts";
import type { ToolErrorData } from "../../../src/sandbox/contract/errors.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import type { OptionTable } from "../../support/option-fuzz.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { publicEntries } from "./public-entries.ts";
import { BY_NAME, CLASSES, OF_NO_TENANT, TENANCY_ENTRIES, type TenancyEntry, type Whose } from "./tenancy-entries.ts";

const ran: string[] = [];
async function gloveboxOf(tenancy: "single" | "multi"): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy });
  const add = (_input: unknown, { tenantId }: { readonly tenantId: string }) => ({ ran: ran.push(tenantId) });
  glovebox.router.register("add", {}, add, { scope: "global" });
  return glovebox;
}
const gloveboxes = { single: await gloveboxOf("single"), multi: await gloveboxOf("multi") };
afterAll(async () => {
  await Promise.all(Object.values(gloveboxes).map((glovebox) => glovebox.close()));
});

type Failure = Pick<ToolErrorData, "code" | "message">;

/** The error that a call throws, rejects with, or has in its result or outcome. */
async function failureIn({ call }: TenancyEntry, glovebox: Glovebox, whose: Whose): Promise<Failure | undefined> {
  try {
    const result = (await call(glovebox, whose)) as { readonly error?: Failure } | undefined;
    return result?.error;
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
}

const WRONG_TENANT = { code: "PARAM_INVALID", message: expect.stringContaining("tenancy") };
const ACME = { tenantId: "acme" };
const rows = TENANCY_ENTRIES.map((entry) => [entry.name, entry] as const);
const scoped = rows.filter(([, { scope }]) => scope !== undefined);

describe('tenancy: "single"', () => {
  test.for(rows)("%s works without a tenant", async ([, entry]) => {
    expect(await failureIn(entry, gloveboxes.single, {})).toBeUndefined();
    expect(await failureIn(entry, gloveboxes.single, { tenantId: undefined })).toBeUndefined();
  });

  test.for(scoped)("%s works with its scope, which changes nothing", async ([, entry]) => {
    expect(await failureIn(entry, gloveboxes.single, { scope: entry.scope })).toBeUndefined();
  });

  test.for([...rows, ...BY_NAME.map((entry) => [entry.name, entry] as const)])(
    "%s rejects a tenant and names the option",
    async ([, entry]) => {
      for (const tenantId of ["acme", "default"]) {
        ran.length = 0;
        expect(await failureIn(entry, gloveboxes.single, { tenantId })).toMatchObject(WRONG_TENANT);
        expect(ran).toEqual([]);
      }
    },
  );
});

describe('tenancy: "multi"', () => {
  test.for(rows)("%s works with a tenant", async ([, entry]) => {
    ran.length = 0;
    expect(await failureIn(entry, gloveboxes.multi, ACME)).toBeUndefined();
    expect(new Set(ran).size).toBe(ran.length === 0 ? 0 : 1);
    expect(ran.filter((tenantId) => tenantId !== "acme")).toEqual([]);
  });

  test.for(rows)("%s rejects a missing tenant and names the option", async ([, entry]) => {
    ran.length = 0;
    expect(await failureIn(entry, gloveboxes.multi, {})).toMatchObject(WRONG_TENANT);
    // As a bug of the caller's leaves it.
    expect(await failureIn(entry, gloveboxes.multi, { tenantId: undefined })).toMatchObject(WRONG_TENANT);
    expect(ran).toEqual([]);
  });

  test.for(scoped)("%s works with its scope, and with no other one or both", async ([, entry]) => {
    const { scope } = entry;
    const invalid = { code: "PARAM_INVALID" };
    expect(await failureIn(entry, gloveboxes.multi, { scope })).toBeUndefined();
    const other = scope === "all" ? "global" : "all";
    for (const whose of [{ ...ACME, scope }, { scope: other }, { scope: undefined }, { scope: true }]) {
      expect(await failureIn(entry, gloveboxes.multi, whose)).toMatchObject(invalid);
    }
  });

  test.for([...rows, ...BY_NAME.map((entry) => [entry.name, entry] as const)])(
    "%s rejects a malformed tenant",
    async ([, entry]) => {
      for (const tenantId of [5, null, {}, ["acme"], Promise.resolve("acme")]) {
        const error = await failureIn(entry, gloveboxes.multi, { tenantId });
        expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/tenant/) });
      }
    },
  );

  test("invalidateTenant() takes a tenant, and no other argument", () => {
    gloveboxes.multi.invalidateTenant("acme");
    for (const tenantId of [undefined, "", {}]) {
      expect(() => gloveboxes.multi.invalidateTenant(tenantId as string)).toThrow(/^tenantId: /);
    }
  });
});

describe("the table", () => {
  test("has each method of the public classes, or says why it concerns no tenant", () => {
    const known = new Set([...[...TENANCY_ENTRIES, ...BY_NAME].map(({ name }) => name), ...Object.keys(OF_NO_TENANT)]);
    const methods = CLASSES.flatMap(({ name, prototype }) =>
      Object.getOwnPropertyNames(prototype).map((method) => `${name}.${method}`),
    );
    const missing = methods.filter((method) => !method.endsWith(".constructor") && !known.has(method));
    expect(missing).toEqual([]);
  });

  test("has each public entry whose options name a tenant", () => {
    const tableOf = (node: Exclude<OptionTable[string], string>): OptionTable =>
      Array.isArray(node) ? (node[1] as OptionTable) : (node as OptionTable);
    const namesTenant = (table: OptionTable): boolean =>
      Object.entries(table).some(
        ([key, kind]) =>
          ["tenantId", "tenants", "tenantOf", "scope"].includes(key) ||
          (typeof kind === "object" && namesTenant(tableOf(kind))),
      );
    const known = [...TENANCY_ENTRIES, ...BY_NAME].map(({ name }) => (name.split(".").at(-1) ?? "").toLowerCase());
    // These make what the rows of the table are called on.
    const makers = ["createGlovebox", "ToolRouter", "AgentLoop", "ToolsRouterAgent", "openTool"];
    // The tenant is optional: it only shares look-ups of names fairly.
    makers.push("sendGuardedRequest");
    const missing = publicEntries(gloveboxes.single)
      .filter(({ options }) => typeof options === "object" && namesTenant(options))
      .map(({ name }) => /(\w+)\(/.exec(name)?.[1] ?? name)
      .filter((name) => !makers.includes(name) && !known.includes(name.toLowerCase()));
    expect(missing).toEqual([]);
  });
});

describe("options", () => {
  test.for<readonly [string, object]>([
    ["a record of policies", { tenants: { acme: {} } }],
    ["a function", { tenants: () => ({}) }],
    ["a record of policies, single by name", { tenancy: "single", tenants: { default: {} } }],
  ])("tenants as %s need several tenants", async ([, options]) => {
    const message = 'options.tenants: Needs tenancy: "multi"';
    expect(() => new ToolRouter(options)).toThrow(message);
    expect((await failureOf(makeGlovebox(options))).message).toContain(message);
  });

  test.for(["many", true, null, { mode: "multi" }, Promise.resolve("multi")])("tenancy is not %s", async (tenancy) => {
    expect((await failureOf(makeGlovebox({ tenancy } as never))).message).toMatch(/^options\.tenancy: /);
  });

  test("tenantCache needs a function", async () => {
    const error = await failureOf(makeGlovebox({ tenancy: "multi", tenants: { acme: {} }, tenantCache: { ttlMs: 1 } }));
    expect(error.message).toMatch(/^options\.tenantCache: Needs options\.tenants/);
  });

  test("an upstream server names its tenants or says that it serves all of them", async () => {
    const url = "http://127.0.0.1:9/mcp";
    const servers = async (tenancy: "single" | "multi", server: object): Promise<string> => {
      try {
        await using _box = await makeGlovebox({ tenancy, mcp: { servers: { up: { url, ...server } } } });
        return "ok";
      } catch (thrown) {
        return (thrown as Error).message;
      }
    };
    expect(await servers("multi", {})).toMatch(/^options\.mcp\.servers\.up\.tenants: Missing; with tenancy/);
    expect(await servers("single", { tenants: ["acme"] })).toMatch(
      /^options\.mcp\.servers\.up\.tenants: Needs tenancy/,
    );
    for (const server of [{ tenants: ["acme"] }, { scope: "global" }])
      expect(await servers("multi", server)).toBe("ok");
    for (const server of [{}, { scope: "global" }]) expect(await servers("single", server)).toBe("ok");
  });
});

describe("what follows from it", () => {
  test("a tool of one tenant calls others as that tenant, in either tenancy", async () => {
    for (const [tenancy, glovebox] of Object.entries(gloveboxes)) {
      const whose = tenancy === "multi" ? ACME : {};
      const source = "export default async (_, { tools }) => (await tools.add({})).ran > 0";
      const tool = { name: "outer", source, overrides: { capabilities: { tools: true } } };
      await glovebox.addTool(tool, whose);
      ran.length = 0;
      expect(outputOf(await glovebox.execute({ id: "c", toolName: "outer" }, whose))).toBe(true);
      expect(ran).toEqual([tenancy === "multi" ? "acme" : "default"]);
    }
  });

  test("a session runs code for its tenant, in either tenancy", async () => {
    for (const [tenancy, glovebox] of Object.entries(gloveboxes)) {
      await using session = await glovebox.openSession(tenancy === "multi" ? ACME : {});
      expect(outputOf(await session.run("6 * 7"))).toBe(42);
      expect(session.info.tenantId).toBe(tenancy === "multi" ? "acme" : "default");
    }
  });

  test("removeTool() removes the tool of the owner that it names, and no other", async () => {
    const { multi: glovebox } = gloveboxes;
    await glovebox.addTool({ name: "x", source: "export default () => 'acme'" }, ACME);
    await glovebox.addTool({ name: "x", source: "export default () => 'beta'" }, { tenantId: "beta" });
    for (const wrong of ["beta", { tenant: "beta" }, undefined, {}, { scope: "all" }]) {
      expect(() => glovebox.removeTool("x", wrong as never)).toThrow(ToolError);
    }
    expect(glovebox.removeTool("x", { scope: "global" })).toBe(false);
    expect(glovebox.removeTool("x", { tenantId: "beta" })).toBe(true);
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "x" }, ACME))).toBe("acme");
  });

  test("openTool() has one tenant of its own, or the one that it is given", async () => {
    const path = new URL("../../../tools/echo", import.meta.url);
    const host = { cache: false, limits: PATIENT_LIMITS } as const;
    await using own = await openTool(path, { host });
    expect((await own.output({ value: 1 })) as object).toMatchObject({ metadata: { tenantId: "default" } });
    expect(codeOf(await own.call({ value: 1 }, ACME))).toBe("PARAM_INVALID");
    await using acme = await openTool(path, { host, ...ACME });
    expect((await acme.output({ value: 1 })) as object).toMatchObject({ metadata: { tenantId: "acme" } });
    expect((await failureOf(openTool(path, { host: { ...host, tenancy: "single" }, ...ACME }))).message).toMatch(
      /tenancy/,
    );
    expect((await failureOf(openTool(path, { host: { ...host, tenancy: "multi" } }))).message).toMatch(/tenancy/);
  });
});
