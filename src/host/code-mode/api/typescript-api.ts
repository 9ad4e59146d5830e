// Declares tools in TypeScript: the signature of one tool, for a model to read, and a declaration file of all, for the type checker. Schemas
// are untrusted; their text never becomes code, and the declarations of a tool and of all tools are bounded.
import type { JsonSchema, ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { SchemaTypes } from "../../json-schema/typescript/schema-types.ts";
import { TypeNames, toComment, toTypeName } from "../../json-schema/typescript/type-text.ts";
import type { CodePath } from "./code-names.ts";

/** A tool as code sees it. */
export interface DeclaredTool {
  readonly definition: ToolDefinition;
  readonly path: CodePath;
}

/** The declaration of one tool. */
export interface ToolSignature {
  /** The description as a comment on a line of its own; empty without one. */
  readonly comment: string;
  /** The method: `add(input: { a: number }): Promise<{ sum: number }>;` */
  readonly method: string;
  /** Types that the method refers to. */
  readonly types: readonly string[];
  /** Length of the text that was made for it, also of types that were too long. */
  readonly workLength: number;
}

/** Longest declaration of one tool, in UTF-16 code units. A longer one has `unknown` types. */
const MAX_TOOL_LENGTH = 128 * 1024;
/** Longest declaration file. Tools that do not fit have `unknown` types. */
const MAX_FILE_LENGTH = 4 * 1024 * 1024;
/** Longest text that is made for a file, with that of types that were too long. The tools after it have `unknown` types. */
const MAX_WORK_LENGTH = 2 * MAX_FILE_LENGTH;
const MAX_DESCRIPTION = 1_000;
const LOOSE = "{ [key: string]: unknown }";

/** Returns whether the tool accepts `{}` as far as the schema shows: its input can then be left out. */
function isOptional({ type, required, properties, anyOf, oneOf, allOf, $ref }: JsonSchema): boolean {
  const isObject = type === "object" || (type === undefined && properties !== undefined);
  const isEmpty = type === undefined && properties === undefined;
  const isPlain = [anyOf, oneOf, allOf, $ref].every((keyword) => keyword === undefined);
  return isPlain && (isObject || isEmpty) && !(Array.isArray(required) && required.length > 0);
}

/** Returns the signature of a tool. */
export function toSignature({ definition, path }: DeclaredTool, names: TypeNames): ToolSignature {
  const { description, inputSchema, outputSchema } = definition;
  const name = path.at(-1) as string;
  const prefix = toTypeName(path.join("_"));
  const options = { isMutable: true, isLocal: true, maxLength: MAX_TOOL_LENGTH } as const;
  const input = new SchemaTypes(inputSchema, names, names.take(`${prefix}Input`), { ...options, isWritten: true });
  const inputType = input.inline();
  const output = outputSchema && new SchemaTypes(outputSchema, names, names.take(`${prefix}Output`), options);
  const outputType = output?.inline() ?? "unknown";
  const comment = toComment(description, "", MAX_DESCRIPTION);
  const mark = isOptional(inputSchema) ? "?" : "";
  const types = [...input.declarations, ...(output?.declarations ?? [])];
  const method = `${name}(input${mark}: ${inputType === "unknown" ? LOOSE : inputType}): Promise<${outputType}>;`;
  const workLength = input.length + (output?.length ?? 0);
  if (method.length + types.reduce((length, type) => length + type.length, 0) <= MAX_TOOL_LENGTH)
    return { comment, method, types, workLength };
  return { comment, method: `${name}(input${mark}: ${LOOSE}): Promise<unknown>;`, types: [], workLength };
}

/** Members of every object, which are not tools: a call of one must not pass the type check. A tool of such a name has another one in code. */
const NO_TOOLS = "constructor toString toLocaleString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable"
  .split(" ")
  .map((name) => `${name}: never;`)
  .join(" ");

const indented = (text: string): string => text.replaceAll(/^(?=.)/gm, "  ");

/** Returns an interface of the methods. */
const toInterface = (name: string, members: readonly string[]): string =>
  `interface ${name} {\n${[...members, NO_TOOLS].map(indented).join("\n")}\n}`;

/** Declares what code sees in addition to `tools`. */
const GLOBALS = `
  /** Calls the tools. */
  const tools: Tools;
  /** The value that run_code was given as \`input\`; null without one. */
  const input: any;
  /** Values that outlive this run: save large ones instead of returning them, and load them in later code. */
  const result: {
    /** Stores a JSON value under a name and returns its reference. Return the reference instead of the value. */
    save(name: string, value: unknown): Promise<{ saved: string; type: string; bytes: number; preview: string; expiresInMs: number }>;
    /** Loads a value that earlier code has saved under this name. */
    load(name: string): Promise<any>;
    /** Lists the saved values. */
    list(): Promise<{ name: string; type: string; bytes: number }[]>;
    /** Deletes a saved value. */
    delete(name: string): Promise<boolean>;
  };`;

/** Declares what durable code sees in addition. */
const DURABLE_GLOBALS = `
  const ctx: {
    /** Waits without a process, also for days: for an event, for a person's approval, or for a time. */
    waitFor<Value = any>(request: { event: string; timeoutMs?: number }): Promise<Value>;
    waitFor(request: { approval: string; timeoutMs?: number }): Promise<{ approved: boolean; reason: string | null }>;
    waitFor(request: { durationMs: number }): Promise<null>;
    /** Asks a person to fill in a form, whose fields \`requestedSchema\` describes as JSON Schema, or to visit a page. */
    elicit(
      request: { message: string; requestedSchema: object; key?: string } | { mode: "url"; message: string; url: string; key?: string },
    ): Promise<{ action: "accept" | "decline" | "cancel"; content?: any }>;
    /** Registers a function that undoes something when the code fails or is cancelled. The last one runs first. */
    onRollback(run: () => unknown): Promise<void>;
  };`;

/** Writes the declaration file of tools: a module that declares the globals of the code. */
export class DeclarationFile {
  readonly #names = new TypeNames();
  readonly #types: string[] = [];
  readonly #top: string[] = [];
  readonly #servers = new Map<string, string[]>();
  #length = 0;
  #workLength = 0;

  /** Declares a tool. */
  add(tool: DeclaredTool): void {
    const signature = this.#signatureOf(tool);
    this.#types.push(...signature.types);
    const [first, second] = tool.path;
    const member = signature.comment + signature.method;
    if (second === undefined) {
      this.#top.push(member);
      return;
    }
    const members = this.#servers.get(first) ?? [];
    members.push(member);
    this.#servers.set(first, members);
  }

  #signatureOf(tool: DeclaredTool): Omit<ToolSignature, "workLength"> {
    if (this.#workLength <= MAX_WORK_LENGTH) {
      const full = toSignature(tool, this.#names);
      this.#workLength += full.workLength;
      const size = full.comment.length + full.method.length + full.types.reduce((sum, type) => sum + type.length, 0);
      if (this.#length + size <= MAX_FILE_LENGTH) {
        this.#length += size;
        return full;
      }
    }
    const method = `${tool.path.at(-1)}(input?: any): Promise<any>;`;
    this.#length += method.length;
    return { comment: "", method, types: [] };
  }

  /** Returns the file. */
  toText({ isDurable }: { readonly isDurable: boolean }): string {
    const top = [...this.#top];
    const namespaces = [...this.#servers].map(([server, methods]) => {
      const name = this.#names.take(`${toTypeName(server)}Tools`);
      top.push(`${server}: ${name};`);
      return toInterface(name, methods);
    });
    const all = "/** Calls a tool by its name or path. */\ncall(name: string, input?: unknown): Promise<any>;";
    const parts = [...this.#types, ...namespaces, toInterface("Tools", [...top, all])];
    return `export {};\n${parts.join("\n")}\ndeclare global {${GLOBALS}${isDurable ? DURABLE_GLOBALS : ""}\n}\n`;
  }
}
