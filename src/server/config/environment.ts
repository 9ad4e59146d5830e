// The environment variables of a server: one for each option of the schema. Unknown ones are errors, because a misspelt name would otherwise
// leave the default without a notice.
import type * as z from "zod";
import { findNearestName } from "../../host/config/option-errors.ts";
import { ToolError } from "../../host/index.ts";
import { ServerOptionsSchema } from "./server-options.ts";

const PREFIX = "GLOVEBOX_";

const toName = (option: string): string => PREFIX + option.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();

/** The environment variable of each option. */
export const ENVIRONMENT_NAMES: { readonly [option: string]: string } = Object.fromEntries(
  Object.keys(ServerOptionsSchema.shape).map((option) => [option, toName(option)]),
);

/**
 * Variables of other parts: the command line, executors, the Helm chart (the address of a pod), and the commands that the console and the
 * documents show.
 */
const OTHER_NAMES = [
  ...["GLOVEBOX_API_KEY", "GLOVEBOX_URL", "GLOVEBOX_DEBUG", "GLOVEBOX_KEY", "GLOVEBOX_POD_IP"],
  ...["GLOVEBOX_EXECUTOR_POOL", "GLOVEBOX_EXECUTOR_SLOTS"],
  ...["GLOVEBOX_EXECUTOR_CACHE_DIR", "GLOVEBOX_EXECUTOR_ALIVE_FILE"],
];

interface SchemaDef {
  readonly type: string;
  readonly innerType?: z.core.$ZodType;
  readonly out?: z.core.$ZodType;
  readonly options?: readonly z.core.$ZodType[];
  readonly values?: readonly unknown[];
}

/** Returns the type of the values that a schema accepts: "number", "boolean", "array", "object", or another one for text. */
function typeOf(schema: z.core.$ZodType): string {
  const { type, innerType, out, options, values } = schema._zod.def as unknown as SchemaDef;
  const inner = innerType ?? out ?? options?.[0];
  if (inner !== undefined) return typeOf(inner);
  return type === "literal" ? typeof values?.[0] : type;
}

function fromJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message contains a part of the text, which may be a secret.
    throw new ToolError("PARAM_INVALID", `environment.${name}: Expected JSON`);
  }
}

/** Converts a text as far as it has the form of the option. The schema rejects any other. */
function toValue(name: string, text: string, type: string): unknown {
  if (type === "number") return /^\d+$/.test(text) ? Number(text) : text;
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : text;
  if (type === "object" || (type === "array" && text.startsWith("["))) return fromJson(name, text);
  return type === "array" ? text.split(",").map((part) => part.trim()) : text;
}

/** Environment variables by name. */
export interface Environment {
  readonly [name: string]: string | undefined;
}

/** Checks that every variable has a known name. @throws {ToolError} PARAM_INVALID */
function checkNames(env: Environment): void {
  const known = [...Object.values(ENVIRONMENT_NAMES), ...OTHER_NAMES];
  // Kubernetes sets variables for each service in the namespace, such as GLOVEBOX_DB_SERVICE_HOST and GLOVEBOX_DB_PORT_5432_TCP.
  const services = Object.keys(env).flatMap((name) => /^(.*_)SERVICE_HOST$/.exec(name)?.[1] ?? []);
  const isOfService = (name: string): boolean =>
    services.some((start) => name.startsWith(`${start}SERVICE_`) || name.startsWith(`${start}PORT`));
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(PREFIX) || text === undefined || text === "" || known.includes(name) || isOfService(name))
      continue;
    const nearest = findNearestName(name, known);
    const hint = nearest === undefined ? "" : `. Did you mean ${nearest}?`;
    throw new ToolError("PARAM_INVALID", `environment.${name}: Unknown variable${hint}`);
  }
}

/**
 * Returns the options that the environment sets. Lists are JSON, or separated by commas; objects are JSON.
 * @throws {ToolError} PARAM_INVALID for an unknown variable that begins with GLOVEBOX_, and for an object that is not JSON
 */
export function readEnvironment(env: Environment): { readonly [option: string]: unknown } {
  checkNames(env);
  const set = Object.entries(ServerOptionsSchema.shape).flatMap(([option, schema]): readonly [string, unknown][] => {
    const name = toName(option);
    const text = env[name];
    return text === undefined || text === "" ? [] : [[option, toValue(name, text, typeOf(schema))]];
  });
  const receivers = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  const hasReceiver = receivers.some((name) => (env[name] ?? "") !== "");
  return Object.fromEntries([...(hasReceiver ? [["telemetry", true] as const] : []), ...set]);
}
