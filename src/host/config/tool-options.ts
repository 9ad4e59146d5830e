// Options of addTool(), updateTool() and inspectTool(), with the zod schemas that validate them.
import * as z from "zod";
import { SOURCE_MODES, type SourceMode, type ToolBundle } from "../../bundler/tool-bundle.ts";
import {
  type DefinitionOverrides,
  DefinitionOverridesSchema,
  type ToolDefinition,
} from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { ISOLATE_LIFETIMES, type IsolateLifetime } from "../../sandbox/protocol/message-fields.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/coercion.ts";
import { ownerFields } from "../routing/tenant-scope.ts";
import { keysAt, parseOptions, unknownOptionError } from "./option-errors.ts";

export const LANGUAGES = ["javascript", "typescript", "python"] as const;
export type Language = (typeof LANGUAGES)[number];

/** Source of a tool, and the parts of its definition that the host supplies or overrides. */
export type ToolInput = (
  | {
      /** Path of the tool's file. */
      readonly path: string;
    }
  | {
      /** Source files by path. */
      readonly files: { readonly [path: string]: string };
      /** Path of the file with the tool's exports. */
      readonly entry?: string | undefined;
    }
  | {
      /** Source text of a single-file tool. */
      readonly source: string;
      /**
       * `"script"` runs the source as the body of a sloppy-mode function of `input` and `ctx`, in JavaScript. Its output is what it
       * returns, or else the value of its last expression, also of one in a branch, a block or a `with` statement.
       * @default "module"
       */
      readonly mode?: SourceMode | undefined;
    }
) & {
  /** Language of the source. Default: by the extension of the file or entry, or TypeScript if there is none. */
  readonly language?: Language | undefined;
  /** Name of the tool, whatever name its code exports. Default: the exported name, or else `defaultName`. */
  readonly name?: string | undefined;
  /** Name of the tool if its code exports none. Default: one from its file, or from its content. */
  readonly defaultName?: string | undefined;
  /** Fields of the definition that the host supplies or overrides. `capabilities` named here, engine features included, are granted. */
  readonly overrides?: DefinitionOverrides | undefined;
};

/** Options of `addTool`. */
export interface AddToolOptions {
  /** The tenant that the tool belongs to, 1 to 1,024 characters. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenantId?: string | undefined;
  /** `"global"`: every tenant may call the tool. */
  readonly scope?: "global" | undefined;
  /** Names of capabilities and engine features to grant. `log` is always granted. */
  readonly grant?: readonly string[] | undefined;
  /** How long an isolate of this tool lives. Default: the option `isolateLifetime` of `createGlovebox`. */
  readonly isolateLifetime?: IsolateLifetime | undefined;
  /** How arguments of this tool are coerced. Overrides the option `arguments` of `createGlovebox`. */
  readonly arguments?: ArgumentOptions | undefined;
  /**
   * Whether the tool replaces the owner's tool of the same name, as `updateTool` does. If there is none, the tool is added.
   * @default false
   */
  readonly replace?: boolean | undefined;
}

/** Options of `updateTool`. Nothing is copied from the old version: an option that is left out has its default. */
export type UpdateToolOptions = Omit<AddToolOptions, "replace">;

/** Result of `inspectTool`: a tool that was built and whose definition was extracted, but that is not registered. */
export interface ToolInspection {
  readonly definition: ToolDefinition;
  readonly bundle: ToolBundle;
  /** Probable mistakes, such as a schema that is not exported as `inputSchema`. */
  readonly warnings: readonly string[];
  /** Paths on this machine that the build read or looked for, missing ones included: a change of one of them may change the tool. */
  readonly files: readonly string[];
  /** Size of the V8 code cache in bytes; 0 for a Python tool. */
  readonly codeCacheBytes: number;
  /** Time in ms that bundling took. */
  readonly bundleMs: number;
  /** Time in ms that extracting the definition took. */
  readonly extractMs: number;
  /** Whether the bundle came from the cache. */
  readonly cached: boolean;
}

const common = {
  language: z.enum(LANGUAGES).optional(),
  name: z.string().optional(),
  defaultName: z.string().optional(),
  overrides: DefinitionOverridesSchema.optional(),
};
/** Schemas of the three forms of a tool's source, by the key that each of them requires. */
const TOOL_INPUT_SCHEMAS = {
  path: strictObject({ path: z.string().min(1), ...common }),
  files: strictObject({ files: z.record(z.string(), z.string()), entry: z.string().optional(), ...common }),
  source: strictObject({ source: z.string(), mode: z.enum(SOURCE_MODES).optional(), ...common }),
} as const;
const TOOL_INPUT_KEYS = [...new Set(Object.values(TOOL_INPUT_SCHEMAS).flatMap((schema) => keysAt(schema, [])))];
const toolOptionsShape = {
  ...ownerFields,
  grant: z.array(z.string()).default([]),
  isolateLifetime: z.enum(ISOLATE_LIFETIMES).optional(),
  arguments: ArgumentOptionsSchema.optional(),
};
const UpdateToolOptionsSchema = strictObject(toolOptionsShape);
export const AddToolOptionsSchema = strictObject({ ...toolOptionsShape, replace: z.boolean().default(false) });
const InspectToolOptionsSchema = strictObject({
  ...ownerFields,
  grant: z.array(z.string()).default([]),
});

/** Removes the known keys whose value is undefined, since undefined means "not given". */
function withoutAbsent(input: unknown): unknown {
  if (!isPlainObject(input)) return input;
  const given = Object.entries(input).filter(([key, value]) => value !== undefined || !TOOL_INPUT_KEYS.includes(key));
  return Object.fromEntries(given);
}

/** Returns the schema of the form that an input has. */
function schemaOfInput(input: unknown): z.ZodType<ToolInput> {
  const expected =
    "{ path }, { files, entry? } or { source }, each with an optional language, name, defaultName and overrides";
  const fail = (got: string): never => {
    const message = `Expected ${expected}, got ${got}`;
    throw new ToolError("PARAM_INVALID", `tool: ${message}`, { details: { problems: [{ path: "", message }] } });
  };
  if (!isPlainObject(input)) return fail(describeKind(input));
  const keys = Object.keys(input);
  const unknown = keys.find((key) => !TOOL_INPUT_KEYS.includes(key));
  if (unknown !== undefined) throw unknownOptionError("tool", unknown, TOOL_INPUT_KEYS);
  const forms = (["path", "files", "source"] as const).filter((key) => keys.includes(key));
  const [form, second] = forms;
  if (second !== undefined) return fail(`an object with ${forms.join(" and ")}`);
  if (form !== undefined) return TOOL_INPUT_SCHEMAS[form];
  return fail(keys.length === 0 ? "an empty object" : `an object with ${keys.join(", ")} only`);
}

/** @throws {ToolError} PARAM_INVALID for an input that is not a valid {@link ToolInput}, or with two names */
export function parseToolInput(given: unknown): ToolInput {
  const input = withoutAbsent(given);
  if (isPlainObject(input) && Object.hasOwn(input, "mode") && !Object.hasOwn(input, "source")) {
    throw new ToolError(
      "PARAM_INVALID",
      'tool.mode: Expected it next to source only, as in { source, mode: "script" }; a tool of path or files is a module',
    );
  }
  const parsed = parseOptions(schemaOfInput(input), input, "tool");
  const { name, overrides } = parsed;
  if (name === undefined || overrides?.name === undefined || overrides.name === name) return parsed;
  throw new ToolError(
    "PARAM_INVALID",
    `tool.name is ${JSON.stringify(name)} and tool.overrides.name is ${JSON.stringify(overrides.name)}: expected one name`,
  );
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseAddToolOptions(options: unknown = {}): z.infer<typeof AddToolOptionsSchema> {
  return parseOptions(AddToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseUpdateToolOptions(options: unknown = {}): z.infer<typeof UpdateToolOptionsSchema> {
  return parseOptions(UpdateToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseInspectToolOptions(options: unknown = {}): z.infer<typeof InspectToolOptionsSchema> {
  return parseOptions(InspectToolOptionsSchema, options, "options");
}
