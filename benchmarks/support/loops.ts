// Ten endless loops, as a table: code that a deadline has to stop.

export interface EndlessTool {
  readonly name: string;
  readonly source: string;
  /** How V8 can stop the loop. Builtins check for no interrupt, so only the end of the process ends them. */
  readonly stoppedBy: "dispose" | "SIGKILL";
}

export const ENDLESS_TOOLS: readonly EndlessTool[] = [
  { name: "plain loop", stoppedBy: "dispose", source: "export default () => { for (;;); };" },
  { name: "microtasks", stoppedBy: "dispose", source: "export default async () => { for (;;) await null; };" },
  { name: "promise that never settles", stoppedBy: "dispose", source: "export default () => new Promise(() => {});" },
  {
    name: "short-lived allocation",
    stoppedBy: "dispose",
    source: "export default () => { for (;;) new Array(1_000).fill(1); };",
  },
  {
    name: "backtracking regular expression",
    stoppedBy: "dispose",
    source: 'export default () => /^(a+)+$/.test("a".repeat(60) + "b");',
  },
  {
    name: "finally that goes on",
    stoppedBy: "dispose",
    source:
      "export default () => { again: for (;;) { try { for (;;); } catch { continue again; } finally { continue again; } } };",
  },
  {
    name: "flood of log lines",
    stoppedBy: "dispose",
    source: 'export default () => { for (;;) console.log("again"); };',
  },
  {
    name: "indexOf over a stated length",
    stoppedBy: "SIGKILL",
    source: "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);",
  },
  {
    name: "lastIndexOf over a stated length",
    stoppedBy: "SIGKILL",
    source: "export default () => Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1);",
  },
  {
    name: "normalize of many marks",
    stoppedBy: "SIGKILL",
    source: `export default () => {
      const marks = ("\\u0315".repeat(50) + "\\u0300".repeat(50)).repeat(20_000);
      for (;;) marks.normalize("NFD");
    };`,
  },
];
