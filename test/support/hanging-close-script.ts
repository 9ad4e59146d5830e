// A host that closes its Glovebox while one part of it hangs. For each mode it prints "begun" when the part hangs and "closed" when
// close() has resolved. Then it does nothing: the process must end by itself. Run by close.test.ts.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { defineCapability } from "../../src/host/capabilities/capability.ts";
import type { KvStore } from "../../src/host/capabilities/kv/kv-store.ts";
import type { GloveboxOptions } from "../../src/host/config/glovebox-options.ts";
import type { CallContext } from "../../src/host/contract/tool-call.ts";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";

const [folder = "", ...modes] = process.argv.slice(2);
const say = (line: string): number => writeSync(1, `${line}\n`);
/** Resolves when the part of the current mode hangs. */
let hanging = Promise.withResolvers<void>();
const nowItHangs = (): void => hanging.resolve();
const hang = (): Promise<never> => {
  nowItHangs();
  return new Promise(() => {});
};
const hook = (stage: string): GloveboxOptions => ({
  hooks: [{ name: "slow", timeoutMs: 30_000, [stage]: hang }],
});
const STUBBORN = fileURLToPath(new URL("mcp-stubborn-script.ts", import.meta.url));

interface Mode {
  readonly options?: GloveboxOptions;
  readonly context?: CallContext;
  readonly source?: string;
  readonly grant?: readonly string[];
  /** In the place of a call of the tool. */
  readonly begin?: (glovebox: Glovebox) => Promise<void>;
}

const kvStore = { get: hang, set: hang, delete: hang, list: hang, usage: hang, [Symbol.asyncDispose]: hang };
const hangCapability = defineCapability({ name: "hang", inputSchema: {}, outputSchema: {}, handler: hang });
const ASKS_KV = { source: "export default async (_, ctx) => ctx.kv.get('a')", grant: ["kv"] };

const MODES: { readonly [name: string]: Mode } = {
  nothing: { begin: async () => nowItHangs() },
  "kv-pipe": {
    ...ASKS_KV,
    options: { kv: { path: join(folder, "pipe") } },
    begin: async (glovebox) => {
      // createGlovebox() would have rejected it.
      execFileSync("mkfifo", [join(folder, "pipe")]);
      await glovebox.execute({ id: "c", toolName: "tool" }, { timeoutMs: 3_000 });
      nowItHangs();
    },
  },
  "kv-folder": {
    ...ASKS_KV,
    options: { kv: { path: join(folder, "kv") } },
    begin: async (glovebox) => {
      mkdirSync(join(folder, "kv"));
      await glovebox.execute({ id: "c", toolName: "tool" });
      nowItHangs();
    },
  },
  "host-kv-store": { ...ASKS_KV, options: { kv: kvStore as unknown as KvStore } },
  capability: {
    source: "export default (_, ctx) => ctx.hang()",
    grant: ["hang"],
    options: { capabilities: [hangCapability] },
  },
  "host-function": {
    begin: async (glovebox) => {
      glovebox.router.register("hang", {}, hang);
      void glovebox.execute({ id: "c", toolName: "hang" });
    },
  },
  "host-source": {
    begin: async (glovebox) => {
      glovebox.router.addToolProvider("slow", { call: hang }).register("hang", {});
      void glovebox.execute({ id: "c", toolName: "hang" });
    },
  },
  "hook-validate": { options: hook("validate") },
  "hook-prepare": { options: hook("prepare") },
  "hook-execute": { options: hook("execute") },
  "hook-result": { options: hook("result") },
  flags: { options: { flags: () => hang() } },
  client: {
    source:
      "export default (_, ctx) => ctx.elicit({ message: 'Go on?', requestedSchema: { type: 'object', properties: {} } })",
    grant: ["elicit"],
    context: { client: { elicit: hang } },
  },
  loop: {
    source: "export default () => { console.log(1); for (;;); }",
    begin: async (glovebox) => {
      void glovebox.execute({ id: "c", toolName: "tool" }, { onLog: nowItHangs });
    },
  },
  session: {
    begin: async (glovebox) => {
      const session = await glovebox.openSession({ grant: ["hang"], language: "javascript" });
      void session.run("await ctx.hang()");
    },
    options: { capabilities: [hangCapability] },
  },
  stream: {
    source: "export default async function* (_, ctx) { yield 1; await ctx.hang(); }",
    grant: ["hang"],
    options: { capabilities: [hangCapability] },
    begin: async (glovebox) => {
      const stream = glovebox.stream({ id: "c", toolName: "tool" });
      await stream.next();
      void stream.next();
    },
  },
  bundler: {
    begin: async (glovebox) => {
      const nested = `${"(".repeat(2_000)}1${")".repeat(2_000)}`;
      const source = `export default () => [${Array.from({ length: 500 }, () => nested).join(",")}]`;
      glovebox.addTool({ name: "large", source }).catch(() => {});
      await sleep(200);
      nowItHangs();
    },
  },
  "mcp-deaf": {
    options: { mcp: { servers: { up: { command: process.execPath, args: [STUBBORN, "deaf"], env: {} } } } },
    begin: async (glovebox) => {
      await glovebox.listTools();
      nowItHangs();
    },
  },
  "mcp-mute": {
    options: { mcp: { servers: { up: { command: process.execPath, args: [STUBBORN, "mute"], env: {} } } } },
    begin: async (glovebox) => {
      void glovebox.listTools();
      await sleep(500);
      nowItHangs();
    },
  },
};

for (const mode of modes) {
  const found = MODES[mode];
  if (found === undefined) throw new Error(`There is no mode "${mode}"`);
  hanging = Promise.withResolvers();
  const { options = {}, context, source = "export default () => 1", grant = [], begin } = found;
  const cache = { directory: join(folder, "cache") };
  // Nothing but close() ends a call.
  const limits = { timeoutMs: 300_000, cpuMs: 300_000 };
  const workers = { max: 2, warmProcesses: 0 };
  const glovebox = await createGlovebox({ cache, kv: "memory", limits, workers, ...options });
  await glovebox.addTool({ name: "tool", source }, { grant: [...grant] });
  if (begin !== undefined) await begin(glovebox);
  else void glovebox.execute({ id: "c", toolName: "tool" }, context);
  await hanging.promise;
  say(`${mode}: begun`);
  await glovebox.close();
  say(`${mode}: closed`);
}
