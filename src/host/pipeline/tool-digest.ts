// Digests of registered tools. A caller that approves a call approves one tool, and a name alone does not identify it: an upstream server
// can change a description, and a host can register other code. The validate stage compares the digest of the tool that it is about to run.
import { createHash } from "node:crypto";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { toCanonicalJson } from "../json/canonical-json.ts";
import type { RegisteredTool } from "../routing/registry.ts";

const definitionDigests = new WeakMap<ToolDefinition, string>();
const toolDigests = new WeakMap<RegisteredTool, string>();

/** Returns the SHA-256 of a value as canonical JSON, in hexadecimal. */
const digestOfJson = (value: unknown): string => createHash("sha256").update(toCanonicalJson(value)).digest("hex");

/** Computes a digest once per object: registered tools and their definitions do not change. */
function cached<Key extends object>(digests: WeakMap<Key, string>, key: Key, value: () => unknown): string {
  const known = digests.get(key);
  if (known !== undefined) return known;
  const digest = digestOfJson(value());
  digests.set(key, digest);
  return digest;
}

/** Returns the digest of a definition without the `metadata` of a listed tool. */
const digestOfDefinition = (definition: ToolDefinition & { readonly metadata?: unknown }): string =>
  cached(definitionDigests, definition, () => {
    const { metadata: _metadata, ...own } = definition;
    return own;
  });

/** Returns whether two definitions are equal. A registry may return a new object each time. */
export const isSameDefinition = (a: ToolDefinition, b: ToolDefinition): boolean =>
  a === b || digestOfDefinition(a) === digestOfDefinition(b);

/**
 * Returns the SHA-256 of a tool's definition, its source and, for a sandboxed tool, its code and granted capabilities, in hexadecimal. It is
 * the same in every process that registers the same tool.
 * @throws {ToolError} PARAM_INVALID for a value that is not a registered tool
 */
export function digestOfTool(tool: RegisteredTool): string {
  const given = tool as Partial<RegisteredTool> | null | undefined;
  if (given?.definition === undefined || given.executor === undefined)
    throw new ToolError("PARAM_INVALID", `tool: Expected a registered tool, got ${describeKind(tool)}`);
  const { definition, executor, contentDigest } = tool;
  const { source, sourceId } = executor;
  return cached(toolDigests, tool, () => ({ definition, source, sourceId, contentDigest }));
}

/** The code of a sandboxed tool and its grants. */
interface SandboxedContent {
  readonly bundle: { readonly sha256: string };
  /** All tools in Python share one bundle. The key of the tool contains the hash of its own source. */
  readonly python?: { readonly toolKey: string } | undefined;
  readonly granted: ReadonlyMap<string, unknown>;
  readonly features: readonly string[];
}

const SHA256 = /^[0-9a-f]{64}$/;

/** Returns the SHA-256 of a tool's bundle, or of its source in Python, in hexadecimal. Undefined if the tool has neither. */
export function contentHashOf({ bundle, python }: Pick<SandboxedContent, "bundle" | "python">): string | undefined {
  const hash = python?.toolKey ?? bundle.sha256;
  return SHA256.test(hash) ? hash : undefined;
}

/** Returns the digest of a sandboxed tool's code, granted capabilities and engine features. */
export function digestOfContent({ bundle, python, granted, features }: SandboxedContent): string {
  const code = python === undefined ? bundle.sha256 : `python:${python.toolKey}`;
  return digestOfJson({ code, granted: [...granted.keys()].sort(), features: [...features].sort() });
}

/** @throws {ToolError} APPROVAL_REQUIRED if a digest is expected and the tool has another one */
export function checkToolDigest(tool: RegisteredTool, expected: string | undefined): void {
  if (expected === undefined || digestOfTool(tool) === expected) return;
  throw new ToolError(
    "APPROVAL_REQUIRED",
    `The tool ${JSON.stringify(tool.definition.name)} changed after it was offered or approved; the call was not run`,
    { details: { toolChanged: true } },
  );
}

/**
 * Returns the tool to run after hooks have decided: the one that they decided about. If that tool was updated meanwhile, the call stays on
 * the version that it started with.
 * @param isUpdated returns whether an update has replaced a tool
 * @throws {ToolError} TOOL_UNAVAILABLE, recoverable, if the tool was removed, or removed and added anew
 */
export function toDecided(
  decided: RegisteredTool | undefined,
  tool: RegisteredTool | undefined,
  name: string,
  isUpdated: (tool: RegisteredTool) => boolean,
): RegisteredTool | undefined {
  if (decided === tool) return tool;
  if (decided !== undefined && tool !== undefined && isUpdated(decided)) return decided;
  // A registry of the host may return a new object each time.
  if (decided !== undefined && tool !== undefined && digestOfTool(decided) === digestOfTool(tool)) return tool;
  throw unavailable(
    "tool_changed",
    `The tool ${JSON.stringify(name.slice(0, 128))} changed while hooks decided about the call; the call was not run`,
    { details: { toolChanged: true } },
  );
}
