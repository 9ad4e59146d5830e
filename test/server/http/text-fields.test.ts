// Free text in requests: for every text field of the OpenAPI document, a text that no database stores is rejected with the name of the field,
// or the field is one whose text is stored as bytes or JSON. A new field is covered as soon as it exists.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { apiOf } from "../support/api.ts";
import { STORES, TestStores } from "../support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: { readonly [name: string]: Schema };
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: { readonly "application/json"?: { readonly schema: Schema } } };
  readonly "x-glovebox-body"?: string;
}
interface OpenApi {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components: { readonly schemas: { readonly [name: string]: Schema } };
}

/** Fields whose text is stored as bytes, as JSON or as a digest, is encrypted, or is compared in memory. */
const STORED_OTHERWISE: ReadonlySet<string> = new Set([
  ...["POST /v1/console/sessions key", "POST /v1/tenants/{tenant}/triggers secret"],
  ...["PUT /v1/tenants/{tenant}/secrets/{secret} value", "PUT /v1/tenants/{tenant}/kv/{tool}/values/{key} ifVersion"],
  ...["GET /v1/tenants/{tenant}/kv/{tool} prefix", "GET /v1/tenants/{tenant}/kv/{tool} cursor"],
  // Files of a tool.
  ...["tools source", "tools sourceMap", "tools entry", "drafts/calls source"].map(
    (field) => `POST /v1/tenants/{tenant}/${field}`,
  ),
]);

let server: Server;
let document: OpenApi;
beforeAll(async () => {
  const { options } = await stores.create("sqlite");
  server = await createServer({ ...options, port: 0, logLevel: "silent" });
  document = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi;
});
afterAll(() => server.close({ drainMs: 0 }));

const resolve = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema : (document.components.schemas[schema.$ref.split("/").at(-1) as string] as Schema);

/** Returns the paths of the text fields without a pattern, with `0` for the elements of a list. */
function textsIn(given: Schema, path: readonly string[] = []): readonly (readonly string[])[] {
  const schema = resolve(given);
  const { pattern, properties = {}, items, anyOf = [], oneOf = [], allOf = [] } = schema;
  const isText = schema.type === "string" || (Array.isArray(schema.type) && schema.type.includes("string"));
  const own = isText && pattern === undefined && schema.enum === undefined && schema.const === undefined ? [path] : [];
  return [
    ...own,
    ...Object.entries(properties).flatMap(([name, one]) => textsIn(one, [...path, name])),
    ...(items === undefined ? [] : textsIn(items, [...path, "0"])),
    ...[...anyOf, ...oneOf, ...allOf].flatMap((one) => textsIn(one, path)),
  ];
}

const nest = (path: readonly string[], value: unknown): unknown =>
  path.reduceRight<unknown>((inner, name) => (name === "0" ? [inner] : { [name]: inner }), value);

const EXAMPLES: { readonly [parameter: string]: string } = {
  tenant: "acme",
  tool: "add",
  version: "1",
  wait: "1",
  alias: "live",
  secret: "NAME",
  executor: "e1",
  call: `call_${"0".repeat(26)}`,
  key: `key_${"0".repeat(26)}`,
};
const exampleOf = (path: string): string =>
  path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => EXAMPLES[name] ?? `${name}_${"0".repeat(26)}`);

interface Rejected {
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly details?: { readonly problems?: readonly { readonly path: string }[] };
  };
}

test("every text field of a request without a pattern rejects control characters and lone surrogates", async () => {
  const api = apiOf(server);
  await api("POST", "/v1/tenants", { id: "acme" });
  const accepted: string[] = [];
  const fields: string[] = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation["x-glovebox-body"] !== undefined) continue;
      const body = operation.requestBody?.content["application/json"]?.schema;
      const query = (operation.parameters ?? []).filter((one) => one.in === "query" && textsIn(one.schema).length > 0);
      const requests = [
        ...(body === undefined ? [] : textsIn(body)).map((field) => ({ field, isQuery: false })),
        ...query.map(({ name }) => ({ field: [name], isQuery: true })),
      ];
      for (const { field, isQuery } of requests) {
        const name = `${method.toUpperCase()} ${path} ${field.join(".")}`;
        fields.push(name);
        if (STORED_OTHERWISE.has(name) || field.includes("policy")) continue;
        // A query is UTF-8, which has no lone surrogates.
        for (const text of isQuery ? ["a\u0000b"] : ["a\u0000b", "a\ud800"]) {
          const search = isQuery ? `?${field[0]}=${encodeURIComponent(text)}` : "";
          const reply = await api<Rejected>(
            ...([method.toUpperCase(), `${exampleOf(path)}${search}`] as const),
            isQuery ? undefined : nest(field, text),
          );
          const problems = reply.body.error?.details?.problems ?? [];
          const isNamed = problems.some(({ path: named }) => named === field.join("."));
          if (reply.status !== 422 || !isNamed) accepted.push(`${name} ${JSON.stringify(text)}: ${reply.status}`);
        }
      }
    }
  }
  expect(accepted).toEqual([]);
  expect(fields.length).toBeGreaterThan(20);
  expect([...STORED_OTHERWISE].filter((name) => !fields.includes(name))).toEqual([]);
});

describe.for(STORES)("with %s", (kind) => {
  test("no text of a request makes the server fail", async () => {
    await using store = await stores.create(kind);
    await using own = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(own);
    await api("POST", "/v1/tenants", { id: "acme" });
    const source = "export default ({ text }) => { console.log(text); return text; };\n// \u0000";
    const base = "/v1/tenants/acme";
    const nul = "a\u0000b";
    const wide = "\u{10FFFF}".repeat(512);
    const requests: readonly (readonly [string, string, unknown?])[] = [
      ["POST", `${base}/tools`, { name: "echo", source }],
      ["POST", `${base}/tools`, { name: "files", entry: "a.ts", files: { "a.ts": source, [nul]: nul } }],
      ["POST", `${base}/tools`, { name: "entry", entry: nul, files: { "a.ts": source } }],
      ["POST", `${base}/drafts/calls`, { source, input: { text: nul } }],
      ["POST", `${base}/tools/echo/calls`, { input: { text: nul, [nul]: "\ud800" } }],
      ["POST", `${base}/runs`, { tool: "echo", input: { text: nul } }],
      ["PUT", `${base}/secrets/NAME`, { value: `12345678${nul}`, hosts: ["example.com"] }],
      ["PUT", `${base}/kv/echo/values/${encodeURIComponent(nul)}`, { value: { [nul]: nul } }],
      ["PUT", `${base}/kv/echo/values/a`, { value: nul, ifVersion: nul }],
      ["PUT", `${base}/kv/echo/values/${encodeURIComponent(wide)}`, { value: 1 }],
      ["GET", `${base}/kv/echo?prefix=${encodeURIComponent(nul)}&cursor=${encodeURIComponent(nul)}`],
      ["DELETE", `${base}/kv/echo/values/${encodeURIComponent(nul)}`],
      ["POST", `${base}/schedules`, { name: "s", tool: "echo", cron: "@daily", input: { text: nul } }],
      ["POST", `${base}/triggers`, { name: "t", tool: "echo", verification: "github", secret: nul.repeat(8) }],
      ["PATCH", base, { policy: { egress: { allow: [nul] } } }],
      ["PATCH", base, { policy: { egress: { allow: [{ to: "example.com", methods: [nul] }] } } }],
      ["POST", "/v1/console/sessions", { key: nul }],
      ["GET", `${base}/calls?text=${encodeURIComponent("\t")}`],
      // A tenant that can be no id, for a key of the platform.
      ["GET", `/v1/tenants/${encodeURIComponent(nul)}/quotas`],
    ];
    const failed: unknown[] = [];
    for (const [method, path, body] of requests) {
      const { status, body: answer } = await api(method, path, body);
      if (status >= 500) failed.push([method, path, status, answer]);
    }
    expect(failed).toEqual([]);
  });
});

test("a body that is not valid UTF-8 is rejected instead of changed", async () => {
  const send = (body: Buffer): Promise<Response> =>
    fetch(`${server.url}/v1/tenants`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.adminKey}`, "content-type": "application/json" },
      body: new Uint8Array(body),
    });
  const named = (name: Buffer): Buffer =>
    Buffer.concat([Buffer.from('{"id":"encoded","name":"'), name, Buffer.from('"}')]);
  const invalid = await send(named(Buffer.from([0x63, 0x61, 0x66, 0xe9])));
  expect(invalid.status).toBe(400);
  expect(await invalid.json()).toMatchObject({ error: { code: "MALFORMED", message: "The body is not valid UTF-8" } });
  const valid = await send(named(Buffer.from("café")));
  expect([valid.status, await valid.json()]).toEqual([201, expect.objectContaining({ name: "café" })]);
});
