// Hostile tools, each with one attack, as a table. The benchmarks run them at the same time as correct tools.

export interface HostileTool {
  readonly name: string;
  readonly source: string;
  /** Uses the capability `ping`. */
  readonly asks?: boolean;
}

export const HOSTILE_TOOLS: readonly HostileTool[] = [
  { name: "busy-loop", source: "export default () => { for (;;); };" },
  {
    name: "allocation-loop",
    source: "export default () => { const kept = []; for (;;) kept.push(new Array(1_000).fill(kept.length)); };",
  },
  {
    name: "console-flood",
    source:
      'export default async () => { for (let n = 0; ; n += 1) { console.log("flood", n); if (n % 100 === 0) await null; } };',
  },
  {
    name: "capability-flood",
    source: `export default async (_, ctx) => {
      for (;;) await Promise.all(Array.from({ length: 100 }, () => ctx.ping({ text: "x".repeat(100) })));
    };`,
    asks: true,
  },
  // Few bytes, as many values as an output may have: what is dear to parse.
  { name: "output-flood", source: "export default () => Array.from({ length: 312_000 }, () => []);" },
  { name: "microtask-storm", source: "export default async () => { for (;;) await null; };" },
  // Only SIGKILL of its process stops it.
  { name: "unstoppable", source: "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);" },
  {
    name: "timer-storm",
    source: `export default () => {
      for (let n = 0; n < 900; n += 1) setInterval(() => { for (let i = 0; i < 1e4; i += 1); }, 0);
      return new Promise(() => {});
    };`,
  },
];
