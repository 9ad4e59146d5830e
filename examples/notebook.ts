// A notebook: code runs cell by cell in one isolate, and each cell finds what the cells before it have left.
// Shows a cell that fails and keeps the session, a call of a capability, and the limits of a session.
//
// Run: node notebook.ts
import { createGlovebox } from "glovebox";

await using glovebox = await createGlovebox({ limits: { timeoutMs: 30_000, cpuMs: 500 }, kv: "memory" });

// The isolate is kept until the session is closed, idle for too long, or has used up its total.
await using session = await glovebox.openSession({
  language: "typescript",
  grant: ["kv"],
  idleMs: 5 * 60_000,
  total: { runs: 1_000, cpuMs: 60_000 },
});

interface Cell {
  readonly code: string;
  readonly input?: unknown;
}

const cells: readonly Cell[] = [
  // The last expression is the output of a cell.
  { code: "const prices: number[] = input.prices; prices.length", input: { prices: [19, 23, 58] } },
  {
    code: "const total = prices.reduce((sum, price) => sum + price); console.log('sum', total); total / prices.length",
  },
  // A cell that throws leaves what it has done before, and the session goes on.
  { code: "const checked = true;\nprices.map((price) => price.amount.toFixed(2))" },
  { code: "({ checked, total })" },
  // `await` works everywhere, and ctx has what the session was granted.
  { code: "await ctx.kv.set('total', total); await ctx.kv.get('total')" },
  // A cell that is stopped at a limit ends the session: its variables may be half changed.
  { code: "while (true) total;" },
  { code: "total" },
];

for (const [index, { code, input }] of cells.entries()) {
  const result = await session.run(code, input === undefined ? {} : { input });
  for (const { message } of result.logs) console.log(`  log: ${message}`);
  const outcome = result.success
    ? JSON.stringify(result.output)
    : `${result.error.code}: ${result.error.message.split("\n")[0]}`;
  console.log(`[${index + 1}] ${outcome}`);
  if (!result.success && result.error.stack !== undefined) console.log(result.error.stack.replace(/^/gm, "    "));
}
console.log(session.isOver ? "The session is over" : "The session is open");
