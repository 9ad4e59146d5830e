// The page of options, from the code: names, types and descriptions from the TypeScript declarations, defaults and ranges from the zod schemas.
import { fileURLToPath } from "node:url";
import ts from "typescript";
import * as z from "zod";
import { GloveboxOptionsSchema } from "../src/host/config/options.ts";
import { AddToolOptionsSchema } from "../src/host/config/tool-options.ts";
import { ExecutorsSchema } from "../src/host/fleet/fleet-options.ts";
import { ENVIRONMENT_NAMES } from "../src/server/config/environment.ts";
import { ServerOptionsSchema } from "../src/server/config/server-options.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Section {
  readonly title: string;
  readonly about: string;
  readonly file: string;
  readonly type: string;
  readonly schema?: z.ZodType;
  readonly column?: { readonly title: string; readonly of: { readonly [option: string]: string } };
}

const SECTIONS: readonly Section[] = [
  {
    title: "createGlovebox()",
    about: "All are optional. A tenant's policy (`tenants`) may replace some of them for that tenant.",
    file: "src/host/config/glovebox-options.ts",
    type: "GloveboxOptions",
    schema: GloveboxOptionsSchema,
  },
  {
    title: "The policy of a tenant",
    about: "A value of `tenants`, or what the function `tenants` returns.",
    file: "src/host/tenants/tenant-policies.ts",
    type: "TenantOptions",
  },
  {
    title: "Executors on other machines",
    about: "The value of `executors`.",
    file: "src/host/fleet/fleet-options.ts",
    type: "ExecutorsOptions",
    schema: ExecutorsSchema,
  },
  {
    title: "An upstream MCP server",
    about:
      "A value of `mcp.servers`, or the second argument of `glovebox.mcp.addServer()`: a program (`command`) or a URL (`url`).",
    file: "src/host/mcp/client/mcp-options.ts",
    type: "UpstreamServerOptions",
  },
  {
    title: "addTool()",
    about: "The second argument. `updateTool()` takes the same options without `replace`.",
    file: "src/host/config/tool-options.ts",
    type: "AddToolOptions",
    schema: AddToolOptionsSchema,
  },
  {
    title: "The tool that addTool() adds",
    about: "The first argument: `{ path }`, `{ files, entry? }` or `{ source, mode? }`, each with the other options.",
    file: "src/host/config/tool-options.ts",
    type: "ToolInput",
  },
  {
    title: "The context of a call",
    about: "The second argument of `execute()` and `stream()`.",
    file: "src/host/contract/tool-call.ts",
    type: "CallContext",
  },
  {
    title: "createServer() and glovebox.config.ts",
    about:
      "Options of the server. A flag of `glovebox serve` overrides the environment variable, which overrides the configuration file. A variable has a list as JSON or separated by commas, an object as JSON, and `true` or `false`. Unknown variables that begin with `GLOVEBOX_` are errors.",
    file: "src/server/config/server-options.ts",
    type: "ServerOptions",
    schema: ServerOptionsSchema,
    column: { title: "variable", of: ENVIRONMENT_NAMES },
  },
];

/** A schema in JSON, as far as it can be expressed. */
interface JsonSchema {
  readonly properties?: { readonly [name: string]: JsonSchema };
  readonly anyOf?: readonly JsonSchema[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly type?: string;
}

const UNITS: readonly (readonly [RegExp, string])[] = [
  [/Ms$/, "ms"],
  [/Seconds$/, "s"],
  [/Days$/, "days"],
  [/MiB$/, "MiB"],
  [/Bytes$/, "bytes"],
];
const unitOf = (name: string): string => UNITS.find(([ends]) => ends.test(name))?.[1] ?? "";
const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll(/\s+/g, " ").trim();
const code = (text: string): string => `\`${text.replaceAll("|", "\\|").replaceAll(/\s+/g, " ")}\``;
const count = (value: number): string => value.toLocaleString("en");

/** Longest text of a type in the table; a longer one is named only. */
const MAX_TYPE_LENGTH = 90;

/** Options without a comment: the page is not written while there are some. */
const undescribed: string[] = [];

const program = ts.createProgram({
  rootNames: [...new Set(SECTIONS.map(({ file }) => `${ROOT}${file}`))],
  options: {
    ...{ strict: true, noEmit: true, allowImportingTsExtensions: true, skipLibCheck: true },
    ...{
      target: ts.ScriptTarget.ESNext,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
    },
  },
});
const checker = program.getTypeChecker();

function typeOf({ file, type }: Section): ts.Type {
  const source = program.getSourceFile(`${ROOT}${file}`);
  const module = source === undefined ? undefined : checker.getSymbolAtLocation(source);
  const symbol =
    module === undefined ? undefined : checker.getExportsOfModule(module).find(({ name }) => name === type);
  if (symbol === undefined) throw new Error(`${file} does not export ${type}`);
  return checker.getDeclaredTypeOfSymbol(symbol);
}

/** Options that lie in the object of another: written in the same declaration, or in an interface of the sources that is named for it. */
function objectsIn(type: ts.Type): ts.Type[] {
  return (type.isUnion() ? type.types : [type]).filter(
    (part) =>
      (part.flags & ts.TypeFlags.Object) !== 0 &&
      part.getCallSignatures().length === 0 &&
      !checker.isArrayType(part) &&
      checker.getIndexInfosOfType(part).length === 0 &&
      (part.symbol?.name === "__type" ||
        /Options$|^Hardening$/.test(part.symbol?.name ?? part.aliasSymbol?.name ?? "")),
  );
}

/** The options of a library, such as a logger's, are described by that library. */
const isDeclaredHere = (type: ts.Type): boolean =>
  type
    .getProperties()
    .every(({ declarations }) =>
      declarations?.every((node) => !node.getSourceFile().fileName.includes("/node_modules/")),
    );

function textOf(symbol: ts.Symbol): { readonly about: string; readonly initial: string | undefined } {
  const about = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  const tag = symbol.getJsDocTags(checker).find(({ name }) => name === "default");
  const tagged = tag === undefined ? undefined : ts.displayPartsToString(tag.text).trim();
  const sentence = /(?:^|\s)Default: (.+?)\.(?=\s|$)/s.exec(about);
  return {
    about: sentence === null ? about : about.replace(sentence[0], ""),
    initial: tagged === undefined ? sentence?.[1] : code(tagged),
  };
}

/** Returns the schema of a member of any of these. */
function memberOf(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  if (schema === undefined) return undefined;
  return schema.properties?.[name] ?? schema.anyOf?.map((branch) => memberOf(branch, name)).find(Boolean);
}

function rangeOf(schema: JsonSchema | undefined): string {
  const bounded = [schema, ...(schema?.anyOf ?? [])].find((part) => part?.minimum !== undefined);
  if (bounded?.minimum === undefined) return "";
  const { minimum, maximum = Number.MAX_SAFE_INTEGER } = bounded;
  return maximum === Number.MAX_SAFE_INTEGER ? `from ${count(minimum)}` : `${count(minimum)} to ${count(maximum)}`;
}

const toLiteral = (value: unknown): string => (typeof value === "number" ? count(value) : JSON.stringify(value));

/** @throws {Error} if a comment names a number, a boolean or a text as the default that is not the schema's */
function checkDefault(name: string, initial: string | undefined, fromSchema: unknown): void {
  const literal = /^`(-?[\d_]+|true|false|"[^"]*")`$/.exec(initial ?? "")?.[1];
  if (literal === undefined || fromSchema === undefined) return;
  if (literal.replaceAll("_", "") === JSON.stringify(fromSchema)) return;
  throw new Error(`${name}: the comment says that the default is ${literal}, the schema ${JSON.stringify(fromSchema)}`);
}

function rowsOf(type: ts.Type, schema: JsonSchema | undefined, prefix: string, section: Section): string[] {
  const parts = type.isUnion() ? type.types : [type];
  const symbols = new Map(parts.flatMap((part) => part.getProperties()).map((symbol) => [symbol.name, symbol]));
  return [...symbols.values()].flatMap((symbol) => {
    const name = `${prefix}${symbol.name}`;
    const member = memberOf(schema, symbol.name);
    const own = checker.getNonNullableType(checker.getTypeOfSymbol(symbol));
    const isOurs = symbol.declarations?.every((node) => !node.getSourceFile().fileName.includes("/node_modules/"));
    // Limits have a page of their own.
    const nested = isOurs === true && symbol.name !== "limits" ? objectsIn(own).filter(isDeclaredHere) : [];
    const { about, initial } = textOf(symbol);
    if (about === "" && nested.length === 0) undescribed.push(`${section.type}.${name}`);
    const fromSchema = member?.default;
    checkDefault(`${section.type}.${name}`, initial, fromSchema);
    const isPlain = fromSchema !== undefined && (typeof fromSchema !== "object" || Array.isArray(fromSchema));
    const shown = initial ?? (isPlain ? code(toLiteral(fromSchema)) : "");
    const text = checker.typeToString(own, undefined, ts.TypeFormatFlags.NoTruncation).replaceAll("readonly ", "");
    const typeText = nested.length > 0 || text.length > MAX_TYPE_LENGTH ? shortTypeOf(own, nested) : text;
    const { column } = section;
    const cells = [
      code(name),
      code(typeText),
      unitOf(symbol.name),
      shown === "" ? "" : cell(shown),
      rangeOf(member),
      ...(column === undefined ? [] : [column.of[name] === undefined ? "" : code(column.of[name])]),
      cell(about),
    ];
    return [`| ${cells.join(" | ")} |`, ...nested.flatMap((object) => rowsOf(object, member, `${name}.`, section))];
  });
}

/** Names the kinds of a long type: `false or object`. */
function shortTypeOf(type: ts.Type, nested: readonly ts.Type[]): string {
  const parts = type.isUnion() ? type.types : [type];
  const names = parts.map((part) => {
    if (nested.includes(part)) return "object";
    if (part.getCallSignatures().length > 0) return "function";
    if (checker.isArrayType(part)) return "array";
    if (part.isLiteral() || (part.flags & ts.TypeFlags.BooleanLiteral) !== 0) return checker.typeToString(part);
    return part.aliasSymbol?.name ?? part.symbol?.name.replace(/^__.*/, "object") ?? checker.typeToString(part);
  });
  return [...new Set(names)].join(" | ");
}

function toSection(section: Section): string {
  const json =
    section.schema === undefined ? undefined : z.toJSONSchema(section.schema, { io: "input", unrepresentable: "any" });
  const columns = [
    "option",
    "type",
    "unit",
    "default",
    "allowed",
    ...(section.column === undefined ? [] : [section.column.title]),
    "description",
  ];
  return `## ${section.title}

${section.about}

| ${columns.join(" | ")} |
|${columns.map(() => "---").join("|")}|
${rowsOf(typeOf(section), json as JsonSchema | undefined, "", section).join("\n")}
`;
}

/** @throws {Error} if an option has no description */
export function toOptionsPage(): string {
  const sections = SECTIONS.map(toSection);
  if (undescribed.length > 0) throw new Error(`Options without a description: ${undescribed.join(", ")}`);
  return `# Options

Generated from the code. An unknown option is an error, which names the option that was probably meant. [Limits](limits.md) have a page of their own.

${sections.join("\n")}`;
}
