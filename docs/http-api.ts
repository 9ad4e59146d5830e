// The page of the HTTP API, from the OpenAPI document of a real server that is started for it.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "../src/server/index.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly properties?: { readonly [name: string]: Schema };
  readonly required?: readonly string[];
  readonly description?: string;
  readonly default?: unknown;
}
interface Content {
  readonly [type: string]: { readonly schema?: Schema };
}
interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly "x-glovebox-scope"?: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: Schema;
  }[];
  readonly requestBody?: { readonly content?: Content };
  readonly responses?: { readonly [status: string]: { readonly description?: string; readonly content?: Content } };
}
interface OpenApi {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components?: { readonly schemas?: { readonly [name: string]: Schema } };
}

const cell = (text: string): string =>
  text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll(/\s+/g, " ").trim();
const code = (text: string): string => `\`${text.replaceAll("|", "\\|")}\``;

/** Longest list of allowed values in the text of a type. */
const MAX_VALUES = 8;

function typeOf(schema: Schema = {}): string {
  const name = /\/schemas\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  if (name !== undefined) return `[${name}](#${name.toLowerCase()})`;
  if (schema.enum !== undefined && schema.enum.length <= MAX_VALUES)
    return code(schema.enum.map((value) => JSON.stringify(value)).join(" | "));
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.items !== undefined) return `list of ${typeOf(schema.items)}`;
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  return code([schema.type ?? "any"].flat().join(" | "));
}

function membersOf({ properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(
    ([name, member]) =>
      `| ${code(name)} | ${typeOf(member)} | ${required.includes(name) ? "yes" : ""} | ${cell(member.description ?? "")} |`,
  );
  return rows.length === 0
    ? ""
    : `\n| member | type | required | description |\n|---|---|---|---|\n${rows.join("\n")}\n`;
}

function toBody(content: Content | undefined): string {
  const [type, { schema = {} }] = Object.entries(content ?? {})[0] ?? ["", {}];
  if (type === "") return "";
  return `\nBody (${code(type)}): ${typeOf(schema)}\n${membersOf(schema)}`;
}

function toOperation(method: string, path: string, operation: Operation): string {
  const { summary = "", description = "", parameters = [], requestBody, responses = {} } = operation;
  const inputs = parameters.map(
    ({ name, in: where, required, schema }) =>
      `| ${code(name)} | ${where} | ${typeOf(schema)} | ${required === true ? "yes" : ""} |`,
  );
  const answers = Object.entries(responses).map(([status, { description: about = "", content = {} }]) => {
    const [first] = Object.values(content);
    return `| ${status} | ${cell(about)} | ${first?.schema === undefined ? "" : typeOf(first.schema)} |`;
  });
  const scope = description.includes("Scope:") ? "" : `Scope: ${code(operation["x-glovebox-scope"] ?? "public")}.`;
  return `### ${method.toUpperCase()} ${path.replaceAll(/[{}]/g, (brace) => `\\${brace}`)}

${summary}.${description === "" ? "" : ` ${description}`} ${scope}
${inputs.length === 0 ? "" : `\n| parameter | in | type | required |\n|---|---|---|---|\n${inputs.join("\n")}\n`}${toBody(requestBody?.content)}
| status | meaning | body |
|---|---|---|
${answers.join("\n")}
`;
}

async function readDocument(): Promise<OpenApi> {
  const dataDir = await mkdtemp(join(tmpdir(), "glovebox-docs-"));
  try {
    const server = await createServer({ port: 0, dataDir, logLevel: "silent" });
    try {
      return (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi;
    } finally {
      await server.close({ drainMs: 0 });
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

export async function toHttpApiPage(): Promise<string> {
  const { paths, components = {} } = await readDocument();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toOperation(method, path, operation)),
  );
  const schemas = Object.entries(components.schemas ?? {}).map(([name, schema]) => {
    const shown = schema.properties === undefined ? `\n${typeOf(schema)}\n` : membersOf(schema);
    return `### ${name}\n${schema.description === undefined ? "" : `\n${schema.description}\n`}${shown}`;
  });
  return `# HTTP API

Generated from the routes of the server, which serves the same as \`/openapi.json\` and \`/reference\`. A request sends an API key as
\`Authorization: Bearer gbx_…\`, and the key needs the scope that the route names. [Call tools on a server](../guides/call-tools-on-a-server.md) explains
how the parts work together; [glovebox/client](api/README.md) is a typed client.

## Routes

${operations.join("\n")}
## Schemas

${schemas.join("\n")}`;
}
