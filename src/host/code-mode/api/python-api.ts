// Declares tools in Python, as the text of a stub file (.pyi). Schemas are untrusted: names that are not identifiers and all texts are string
// literals, parts that Python's types cannot express become `Any`, and the output is bounded.
import type { JsonSchema } from "../../../sandbox/contract/definition.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { TypeNames, toTypeName } from "../../json-schema/typescript/type-text.ts";
import type { DeclaredTool } from "./typescript-api.ts";

const MAX_DEPTH = 12;
/** Greatest depth of `$ref` and `allOf` within each other. */
const MAX_MERGE_DEPTH = 40;
/** Length that each part of a schema counts as: parts without a text take time too. */
const PART_LENGTH = 8;
const MAX_LITERALS = 100;
const MAX_TEXT = 500;
/** Fields of one class or parameters of one method. More become a dictionary. */
const MAX_FIELDS = 200;
const MAX_TOOL_LENGTH = 64 * 1024;
const MAX_FILE_LENGTH = 2 * 1024 * 1024;
/** Longest text that is made for a file, with that of types that were too long. The tools after it have `Any` types. */
const MAX_WORK_LENGTH = 2 * MAX_FILE_LENGTH;

type Node = { readonly [keyword: string]: unknown };

const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);
const isPythonName = (name: string): boolean =>
  /^(?!__)[A-Za-z_]\w{0,63}$/.test(name) && !KEYWORDS.has(name) && name !== "self";

/** Returns a string literal in ASCII: nothing in it ends the literal, reorders it or hides a part. */
function quoted(text: string): string {
  const json = JSON.stringify(text.slice(0, MAX_TEXT));
  return json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Returns a description as a docstring, in one line. */
const docstring = (text: string): string => quoted(text.replaceAll(/\s+/g, " ").trim());

const SCALARS: { readonly [type: string]: string } = {
  string: "str",
  number: "float",
  integer: "int",
  boolean: "bool",
  null: "None",
};

/** Keywords next to a `$ref` that do not change the type. */
const NAMING: ReadonlySet<string> = new Set([
  "$ref",
  "$defs",
  "definitions",
  "title",
  "description",
  "default",
  "examples",
]);

/** Generates the types of one schema. */
class PythonTypes {
  readonly classes: string[] = [];
  readonly #root: JsonSchema;
  readonly #names: TypeNames;
  readonly #prefix: string;
  readonly #open = new Map<Node, string>();
  readonly #mergedNodes = new Map<Node, Node>();
  #length = 0;

  constructor(root: JsonSchema, names: TypeNames, prefix: string) {
    this.#root = root;
    this.#names = names;
    this.#prefix = prefix;
  }

  get root(): string {
    return this.type(this.#root, this.#prefix, 0);
  }

  /** Length of the text that was made, about in proportion to the time that it took. */
  get length(): number {
    return this.#length;
  }

  /** Whether the schema has more parts or longer text than its types may have. */
  get #isFull(): boolean {
    return this.#length > MAX_TOOL_LENGTH;
  }

  type(schema: unknown, name: string, depth: number): string {
    this.#length += PART_LENGTH;
    if (!isJsonObject(schema) || depth > MAX_DEPTH || this.#isFull) return "Any";
    if (typeof schema.$ref === "string" && Object.keys(schema).every((key) => NAMING.has(key)))
      return this.#reference(schema.$ref, depth);
    return this.#plain(this.#merged(schema), name, depth);
  }

  /**
   * Returns the keywords of a schema that its type depends on, with the fields of `$ref` and `allOf`, because a class has only its own. Parts
   * that are nested too deeply, and those beyond the limit of length, are left out.
   */
  #merged(schema: Node, depth = 0): Node {
    const known = this.#mergedNodes.get(schema);
    if (known !== undefined) return known;
    if (depth > 0) this.#length += PART_LENGTH;
    if (depth > MAX_MERGE_DEPTH || this.#isFull) return {};
    const { $ref, allOf } = schema;
    const target = typeof $ref === "string" ? this.#resolve($ref) : undefined;
    const parts = [
      ...(target === undefined ? [] : [target]),
      ...(Array.isArray(allOf) ? allOf.filter(isJsonObject) : []),
    ];
    const own = mergeFields({}, schema);
    this.#mergedNodes.set(schema, own);
    const merged = parts
      .slice(0, MAX_LITERALS)
      .reduce((all, part) => mergeFields(this.#merged(part, depth + 1), all), own);
    this.#mergedNodes.set(schema, merged);
    return merged;
  }

  #plain(schema: Node, name: string, depth: number): string {
    if ("const" in schema) return this.#counted(literals([schema.const]));
    if (Array.isArray(schema.enum)) return this.#counted(literals(schema.enum));
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = schema[keyword];
      if (Array.isArray(branches) && schema.type === undefined)
        return union(
          branches.slice(0, MAX_LITERALS).map((branch, index) => this.type(branch, `${name}${index + 1}`, depth + 1)),
        );
    }
    const { type = isJsonObject(schema.properties) ? "object" : undefined } = schema;
    const types = Array.isArray(type) ? type : [type];
    return union(types.map((one) => this.#typed(schema, one, name, depth)));
  }

  #counted(text: string): string {
    this.#length += text.length;
    return text;
  }

  #typed(schema: Node, type: unknown, name: string, depth: number): string {
    if (type === "array") {
      const { items, prefixItems } = schema;
      // A list of Python has one type for all its items, also for those that the schema describes one by one.
      const first = (Array.isArray(prefixItems) ? prefixItems.slice(0, MAX_LITERALS) : []).map((item, index) =>
        this.type(item, `${name}Item${index + 1}`, depth + 1),
      );
      const others = isJsonObject(items)
        ? [this.type(items, `${name}Item`, depth + 1)]
        : items === false
          ? []
          : ["Any"];
      return `list[${union([...first, ...others])}]`;
    }
    if (type === "object") return this.#object(schema, name, depth);
    return typeof type === "string" && Object.hasOwn(SCALARS, type) ? (SCALARS[type] ?? "Any") : "Any";
  }

  #object(schema: Node, wanted: string, depth: number): string {
    const { properties, additionalProperties } = schema;
    const count = isJsonObject(properties) ? Object.keys(properties).length : 0;
    if (!isJsonObject(properties) || count === 0 || count > MAX_FIELDS) {
      return `dict[str, ${isJsonObject(additionalProperties) ? this.type(additionalProperties, `${wanted}Value`, depth + 1) : "Any"}]`;
    }
    const known = this.#open.get(schema);
    if (known !== undefined) return known;
    const name = this.#names.take(wanted);
    this.#open.set(schema, name);
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    const fields = Object.entries(properties).map(([key, value]) => {
      this.#length += key.length;
      const type = this.type(value, `${name}${toTypeName(key)}`.slice(0, 80), depth + 1);
      return { key, type: required.has(key) ? type : `NotRequired[${type}]` };
    });
    const isPlain = fields.every(({ key }) => isPythonName(key));
    this.classes.push(
      isPlain
        ? `class ${name}(TypedDict):\n${fields.map(({ key, type }) => `    ${key}: ${type}`).join("\n")}`
        : `${name} = TypedDict(${quoted(name)}, {${fields.map(({ key, type }) => `${quoted(key)}: ${type}`).join(", ")}})`,
    );
    return name;
  }

  #reference(pointer: string, depth: number): string {
    const target = this.#resolve(pointer);
    if (target === undefined) return "Any";
    return this.type(target, `${this.#prefix}${toTypeName((pointer.split("/").at(-1) ?? "").slice(0, 80))}`, depth + 1);
  }

  #resolve(pointer: string): Node | undefined {
    let at: unknown = this.#root;
    for (const part of pointer === "#" ? [] : pointer.split("/").slice(1)) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      if ((!isJsonObject(at) && !Array.isArray(at)) || !Object.hasOwn(at, key)) return undefined;
      at = (at as Node)[key];
    }
    return pointer.startsWith("#") && isJsonObject(at) ? at : undefined;
  }
}

/** Keywords that the type of a schema depends on, beside `properties` and `required`. */
const TYPE_KEYWORDS = ["const", "enum", "anyOf", "oneOf", "type", "items", "prefixItems", "additionalProperties"];

/**
 * Adds the fields of a schema to those of another one, whose own keywords win. The lists of fields are bounded, because each schema that refers
 * to one has a copy of them: one field more than a class may have shows that there are too many.
 */
function mergeFields(one: Node, other: Node): Node {
  const described = [one.properties, other.properties].filter(isJsonObject);
  const properties = [...new Map(described.flatMap(Object.entries))].slice(0, MAX_FIELDS + 1);
  const required = [one.required, other.required].filter(Array.isArray).flat();
  const keywords = TYPE_KEYWORDS.flatMap((keyword) => {
    const owner = [other, one].find((node) => Object.hasOwn(node, keyword));
    return owner === undefined ? [] : [[keyword, owner[keyword]]];
  });
  return {
    ...Object.fromEntries(keywords),
    ...(described.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
    ...(required.length === 0 ? {} : { required: [...new Set(required)].slice(0, MAX_FIELDS) }),
  };
}

function union(types: readonly string[]): string {
  const different = [...new Set(types)];
  if (different.length === 0 || different.includes("Any")) return "Any";
  return different.join(" | ");
}

function literals(values: readonly unknown[]): string {
  const isPlain = (value: unknown): boolean =>
    value === null || typeof value === "boolean" || typeof value === "string" || Number.isSafeInteger(value);
  if (values.length === 0 || values.length > MAX_LITERALS || !values.every(isPlain)) return "Any";
  const shown = values.map((value) =>
    typeof value === "string"
      ? quoted(value)
      : value === null
        ? "None"
        : value === true
          ? "True"
          : value === false
            ? "False"
            : String(value),
  );
  return `Literal[${[...new Set(shown)].join(", ")}]`;
}

/** The declaration of one tool: a method, and the classes that it refers to. */
export interface PythonSignature {
  readonly method: string;
  readonly classes: readonly string[];
  /** Length of the text that was made for it, also of types that were too long. */
  readonly workLength: number;
}

/** Returns the parameters: one for each property if all can be names of parameters, otherwise one dictionary. */
function parametersOf({ inputSchema }: DeclaredTool["definition"], types: PythonTypes, prefix: string): string {
  const { properties, type, $ref, allOf, anyOf, oneOf } = inputSchema;
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  const isPlain =
    (type === undefined || type === "object") && [$ref, allOf, anyOf, oneOf].every((one) => one === undefined);
  if (!isPlain || (names.length <= MAX_FIELDS && !names.every(isPythonName))) return `, input: ${types.root}, /`;
  if (names.length === 0 || names.length > MAX_FIELDS) return ", **fields: Any";
  const required = new Set(Array.isArray(inputSchema.required) ? inputSchema.required : []);
  const ordered = [...names].sort((a, b) => Number(required.has(b)) - Number(required.has(a)));
  const shown = ordered.map((name) => {
    const own = types.type((properties as Node)[name], `${prefix}${toTypeName(name)}`, 1);
    return `${name}: ${own}${required.has(name) ? "" : " = ..."}`;
  });
  return `, *, ${shown.join(", ")}`;
}

/** Returns the signature of a tool. */
export function toPythonSignature(tool: DeclaredTool, names: TypeNames): PythonSignature {
  const { definition, path } = tool;
  const prefix = toTypeName(path.join("_"));
  const input = new PythonTypes(definition.inputSchema, names, `${prefix}Input`);
  const parameters = parametersOf(definition, input, `${prefix}Input`);
  const output = definition.outputSchema && new PythonTypes(definition.outputSchema, names, `${prefix}Output`);
  const returned = output?.root ?? "Any";
  const doc = definition.description.trim() === "" ? "..." : docstring(definition.description);
  const method = `async def ${path.at(-1)}(self${parameters}) -> ${returned}:\n    ${doc}`;
  const classes = [...input.classes, ...(output?.classes ?? [])];
  const length = classes.reduce((sum, text) => sum + text.length, method.length);
  const workLength = input.length + (output?.length ?? 0);
  if (length <= MAX_TOOL_LENGTH) return { method, classes, workLength };
  return { method: `async def ${path.at(-1)}(self, **fields: Any) -> Any:\n    ${doc}`, classes: [], workLength };
}

const indented = (text: string): string => text.replaceAll(/^(?=.)/gm, "    ");

const HEAD = "from typing import Any, Literal, NotRequired, TypedDict";
const DURABLE_HEAD = "from collections.abc import Awaitable, Callable";
const TAIL = `tools: Tools
input: Any
class _Result:
    async def save(self, name: str, value: Any) -> dict[str, Any]:
        "Stores a JSON value under a name and returns its reference. Return the reference instead of a large value."
    async def load(self, name: str) -> Any:
        "Loads a value that earlier code has saved under this name."
    async def list(self) -> list[dict[str, Any]]: ...
    async def delete(self, name: str) -> bool: ...
result: _Result`;

/** Declares what durable code sees in addition. */
const DURABLE_TAIL = `class _Ctx:
    async def waitFor(self, request: dict[str, Any], /) -> Any:
        "Waits without a process, also for days: {'event': name}, {'approval': question} or {'durationMs': time}."
    async def elicit(self, request: dict[str, Any], /) -> dict[str, Any]:
        "Asks a person to fill in a form: {'message': text, 'requestedSchema': JSON Schema of an object}."
    def onRollback(self, run: Callable[[], Any], /) -> Awaitable[None]:
        "Registers a function that undoes something when the code fails or is cancelled. The last one runs first."
ctx: _Ctx`;

/** Returns the stub file of these tools. */
export function toStubFile(tools: readonly DeclaredTool[], { isDurable }: { readonly isDurable: boolean }): string {
  const names = new TypeNames();
  const own = ["Any", "Awaitable", "Callable", "Literal", "NotRequired", "TypedDict", "_Result", "_Ctx"];
  for (const name of own) names.take(name);
  const classes: string[] = [];
  const top: string[] = [];
  const servers = new Map<string, string[]>();
  let length = 0;
  let workLength = 0;
  for (const tool of tools) {
    let signature: Omit<PythonSignature, "workLength"> | undefined;
    if (workLength <= MAX_WORK_LENGTH) {
      const full = toPythonSignature(tool, names);
      workLength += full.workLength;
      const size = full.classes.reduce((sum, text) => sum + text.length, full.method.length);
      if (length + size <= MAX_FILE_LENGTH) signature = full;
      length += signature === undefined ? 0 : size;
    }
    signature ??= { method: `async def ${tool.path.at(-1)}(self, **fields: Any) -> Any: ...`, classes: [] };
    classes.push(...signature.classes);
    const [first, second] = tool.path;
    if (second === undefined) top.push(signature.method);
    else servers.set(first, [...(servers.get(first) ?? []), signature.method]);
  }
  const namespaces = [...servers].map(([server, methods]) => {
    const name = names.take(`${toTypeName(server)}Tools`);
    top.push(`${server}: ${name}`);
    return `class ${name}:\n${methods.map(indented).join("\n")}`;
  });
  const body = top.length === 0 ? "    ..." : top.map(indented).join("\n");
  const head = isDurable ? `${DURABLE_HEAD}\n${HEAD}` : HEAD;
  const tail = isDurable ? [TAIL, DURABLE_TAIL] : [TAIL];
  return `${[head, ...classes, ...namespaces, `class Tools:\n${body}`, ...tail].join("\n\n")}\n`;
}
