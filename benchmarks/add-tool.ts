// How long does it take to add a tool for the first time, with nothing in a cache? A typical tool with a zod schema, again and again for one
// owner, beside a new process of Node that bundles the same source with esbuild.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createGlovebox } from "../src/host/index.ts";
import { QUICK, reportLatencies, times } from "./support/measure.ts";
import { benchmarkPath } from "./support/tools.ts";

const run = promisify(execFile);
const ROUNDS = times(50, 2);
const AT_ONCE = 4;
const folder = await mkdtemp(join(tmpdir(), "glovebox-add-tool-"));
const packagesDir = benchmarkPath("../node_modules");

/** An integration as a customer writes it. Each has a text of its own. */
const sourceOf = (name: string): string => `import { defineTool } from "glovebox/tool";
import { z } from "zod";

export default defineTool({
  name: ${JSON.stringify(name)},
  description: "Looks up the orders of a customer",
  inputSchema: z.object({
    customer: z.string().min(1).max(100),
    state: z.enum(["open", "paid", "sent"]).optional(),
    limit: z.number().int().min(1).max(100).default(20),
    tags: z.array(z.string()).optional(),
  }),
  outputSchema: z.object({ orders: z.array(z.object({ id: z.string(), total: z.number() })) }),
  execute: async ({ customer, limit }) => ({ orders: [{ id: customer, total: limit }] }),
});
`;

const BARE = `
  import { build } from "esbuild";
  const [contents, resolveDir] = process.argv.slice(1);
  const loader = "ts";
  const bundle = { bundle: true, write: false, format: "esm", platform: "node", external: ["glovebox"] };
  await build({ ...bundle, sourcemap: "external", outfile: "out.js", stdin: { contents, resolveDir, loader } });
  process.exit(0);`;

const taken = new Map<string, number[]>();
async function clock(name: string, tools: number, work: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  await work();
  taken.set(name, [...(taken.get(name) ?? []), (performance.now() - started) / tools]);
}

await using glovebox = await createGlovebox({
  tenancy: "multi",
  cache: { directory: join(folder, "cache") },
  bundler: { packagesDir },
});
const add = (name: string, tenantId: string): Promise<unknown> =>
  glovebox.addTool({ source: sourceOf(name) }, { tenantId });

// The first build of the machine reads the packages from the disk.
await add("warm_up", "warm-up");
for (let round = 0; round < ROUNDS; round += 1) {
  const source = sourceOf(`bare_${round}`);
  await clock("node and esbuild, a new process", 1, () =>
    run(process.execPath, ["--input-type=module", "--eval", BARE, source, benchmarkPath("..")], {
      cwd: benchmarkPath(".."),
    }),
  );
  await clock("Glovebox, one after the other", 1, () => add(`one_${round}`, "acme"));
  if (QUICK || round % 5 === 0) {
    await clock("Glovebox, the first tool of a tenant", 1, () => add(`first_${round}`, `tenant-${round}`));
    await clock(`Glovebox, ${AT_ONCE} at once, for each`, AT_ONCE, () =>
      Promise.all(Array.from({ length: AT_ONCE }, (_, index) => add(`many_${round}_${index}`, "acme"))),
    );
  }
  await clock("Glovebox, again from the cache", 1, () =>
    glovebox.inspectTool({ source: sourceOf(`one_${round}`) }, { tenantId: "acme" }),
  );
}
await rm(folder, { recursive: true, force: true });

const mean = (name: string): string => {
  const all = taken.get(name) ?? [];
  return (all.reduce((sum, ms) => sum + ms, 0) / all.length).toFixed(0);
};
await reportLatencies({
  name: "add-tool",
  question: "Adding a typical zod tool for the first time",
  taken,
  notes: [
    `The mean of ${ROUNDS} tools, one after the other, is ${mean("Glovebox, one after the other")} ms; that of bare esbuild is ${mean("node and esbuild, a new process")} ms.`,
    "Adding a tool bundles it in a process without rights, runs it once in a new isolate to read its definition, and makes V8's code cache. Bare esbuild only bundles, and trusts the source.",
  ],
});
