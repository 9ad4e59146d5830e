// Generates the type declarations of everything that is granted to one tool: its capabilities, the tools of its tenant, and the names of its secrets.
import { SchemaTypes } from "../../host/json-schema/typescript/schema-types.ts";
import {
  methodKey,
  propertyKey,
  TypeNames,
  toComment,
  toTypeName,
} from "../../host/json-schema/typescript/type-text.ts";
import { GRANTABLE_CAPABILITY_NAMES } from "../../sandbox/contract/capability-names.ts";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";

/** Members that are part of a capability. */
export const PART_OF: { readonly [name: string]: string } = {
  WebSocket: "fetch",
  EventSource: "fetch",
  fetch: "fetch",
};

export interface EditorToolSignature {
  readonly name: string;
  readonly description?: string | undefined;
  /** Undefined as long as the tool's definition was not loaded. */
  readonly inputSchema?: JsonSchema | undefined;
  readonly outputSchema?: JsonSchema | undefined;
}

/** What the editor knows about a tool. */
export interface ToolFacts {
  /** Capabilities that the tenant's policy allows. */
  readonly allowed: readonly string[];
  /** Capabilities of the live version; undefined for a new tool. */
  readonly granted: readonly string[] | undefined;
  /** The live tools of the tenant. */
  readonly tools: readonly EditorToolSignature[];
}

function declareTools(tools: readonly EditorToolSignature[]): readonly string[] {
  const names = new TypeNames();
  const blocks: string[] = [];
  const methods = tools.map(({ name, description, inputSchema, outputSchema }) => {
    if (inputSchema === undefined) return `  ${methodKey(name)}(input?: any): Promise<any>;`;
    const prefix = names.take(toTypeName(name));
    const declare = (schema: JsonSchema, what: string): string => {
      const type = names.take(`${prefix}${what}`);
      const types = new SchemaTypes(schema, names, type);
      blocks.push(types.declare(type), ...types.declarations);
      return type;
    };
    // A tool without a schema is checked when it runs: a type that says nothing would reject code that works.
    const input = declare(inputSchema, "Input");
    const output = outputSchema === undefined ? "any" : declare(outputSchema, "Output");
    const { required } = inputSchema;
    const isOptional = !Array.isArray(required) || required.length === 0;
    return `${toComment(description, "  ")}  ${methodKey(name)}(input${isOptional ? "?" : ""}: ${input}): Promise<${output}>;`;
  });
  return [
    ...blocks,
    `/** Calls other tools of the tenant by name. */\nexport interface TenantTools {\n${methods.join("\n")}\n  /** Calls a tool with any name. */\n  call(toolName: string, input?: unknown): Promise<any>;\n}`,
  ];
}

/** @returns the text of the module "glovebox/granted" */
export function declareGranted(
  requested: readonly string[],
  secrets: readonly string[] | undefined,
  { allowed, tools }: ToolFacts,
): string {
  const granted = requested.filter((name) => allowed.includes(name));
  const own = granted.filter((name) => (GRANTABLE_CAPABILITY_NAMES as readonly string[]).includes(name));
  const others = granted.filter((name) => !own.includes(name) && name !== "log");
  const picked =
    own.length === 0 ? "{}" : `Pick<OwnCapabilities, ${own.map((name) => JSON.stringify(name)).join(" | ")}>`;
  return [
    'import type { OwnCapabilities } from "glovebox/tool";',
    `export type RequestedSecret = ${secrets === undefined ? "string" : secrets.map((name) => JSON.stringify(name)).join(" | ") || "never"};`,
    `type Own = ${picked};`,
    `export interface GrantedCapabilities extends Own {\n${others.map((name) => `  readonly ${propertyKey(name)}: (input?: unknown) => Promise<any>;`).join("\n")}\n}`,
    ...declareTools(tools),
  ].join("\n");
}
