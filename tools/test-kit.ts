// What the tools' tests share: one tool, loaded through the public API and run for real in the sandbox.
import { join } from "node:path";
import { vi } from "vitest";
import { createGlovebox } from "../src/host/index.ts";

const TENANT = "acme";
/** Room for a slow, busy machine; the tools themselves need milliseconds. */
const TIMEOUT_MS = 20_000;
// Here and not in a hook: a test takes its limit when it is declared.
vi.setConfig({ testTimeout: 3 * TIMEOUT_MS, hookTimeout: 3 * TIMEOUT_MS });

type Box = Awaited<ReturnType<typeof createGlovebox>>;

export interface ToolUnderTest extends AsyncDisposable {
  readonly definition: Awaited<ReturnType<Box["addTool"]>>;
  /** The whole ToolResult. */
  run(args: unknown): Promise<Awaited<ReturnType<Box["execute"]>>>;
  /** The output of a call that must succeed. `Output` is what the test goes on to check. */
  output<Output>(args: unknown): Promise<Output>;
  /** `CODE: message and details` of a call that must fail. */
  failure(args: unknown): Promise<string>;
}

export async function openTool(name: string): Promise<ToolUnderTest> {
  const box = await createGlovebox({ limits: { timeoutMs: TIMEOUT_MS, cpuMs: TIMEOUT_MS } });
  const definition = await box.addTool({ path: join(import.meta.dirname, name) }, { tenantId: TENANT });
  let calls = 0;
  const run = (args: unknown) => {
    calls += 1;
    const call = { id: `call-${calls}`, toolName: name, arguments: args as Record<string, unknown> };
    return box.execute(call, { tenantId: TENANT });
  };
  return {
    definition,
    run,
    async output<Output>(args: unknown) {
      const result = await run(args);
      if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
      return result.output as Output;
    },
    async failure(args) {
      const result = await run(args);
      if (result.success) throw new Error(`Expected a failure, got ${JSON.stringify(result.output).slice(0, 200)}`);
      const { code, message, details } = result.error;
      return `${code}: ${message} ${details === undefined ? "" : JSON.stringify(details)}`;
    },
    [Symbol.asyncDispose]: () => box[Symbol.asyncDispose](),
  };
}

interface SchemaNode {
  readonly properties?: { readonly [name: string]: SchemaNode };
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
  readonly description?: string;
}

/** Paths of all properties in a JSON Schema that have no description: a model would have to guess what they are. */
export function undescribed(schema: unknown, path = ""): string[] {
  const { properties = {}, items, anyOf = [], oneOf = [] } = schema as SchemaNode;
  const missing = [...anyOf, ...oneOf].flatMap((branch) => undescribed(branch, path));
  if (items !== undefined) missing.push(...undescribed(items, `${path}[]`));
  for (const [name, property] of Object.entries(properties)) {
    if (property.description === undefined) missing.push(`${path}.${name}`);
    missing.push(...undescribed(property, `${path}.${name}`));
  }
  return missing;
}
