// glovebox doctor: checks which hardening layers hold on this machine by trying what each should prevent, and runs four hostile tools.
import { loadSandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import type { Probe, ProbeReport } from "../../sandbox/worker/probe.ts";
import { createGlovebox } from "../glovebox/create-glovebox.ts";
import type { Glovebox } from "../glovebox/glovebox.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { Launcher } from "../workers/hardening/launcher.ts";
import { LAYER_NAMES, LAYERS, type Layer, type LayerState } from "../workers/hardening/layers.ts";
import { collectEvidence, type DoctorEvidence } from "./evidence.ts";

export interface LayerFinding {
  readonly layer: Layer;
  readonly state: LayerState | "broken";
  /** The attempt and its result; for a missing layer, how to get it. */
  readonly evidence: string;
  /** Actions that the layer denies to a compromised process. */
  readonly stops: string;
}

export interface ToolFinding {
  readonly attack: string;
  readonly ok: boolean;
  readonly evidence: string;
}

export interface Diagnosis {
  readonly layers: readonly LayerFinding[];
  readonly tools: readonly ToolFinding[];
  /** Whether every active layer holds and every hostile tool was stopped. */
  readonly ok: boolean;
}

interface Finding {
  readonly holds: boolean;
  readonly evidence: string;
}

/** Returns whether all of these actions were tried and denied. */
function checkDenied(report: ProbeReport, probes: readonly Probe[], how = ""): Finding {
  const outcomes = probes.map((probe) => `${probe.replaceAll("-", " ")}: ${report[probe]?.evidence ?? "not tried"}`);
  return {
    holds: probes.every((probe) => report[probe]?.isDenied === true),
    evidence: `${how}${outcomes.join(", ")}`,
  };
}

const WITHOUT_NODE = "with Node's permission model left out, ";

/** The check of each layer. */
const CHECKS: { readonly [Name in Layer]: (evidence: DoctorEvidence) => Finding } = {
  "permission-model": ({ inside }) =>
    checkDenied(inside, ["read-file", "write-file", "connect", "start-program", "start-thread"]),
  "no-native-modules": ({ inside }) => checkDenied(inside, ["load-ffi", "load-sqlite"]),
  "v8-flags": ({ v8Flags }) => ({ holds: v8Flags.length > 0, evidence: `started with ${v8Flags.join(" ")}` }),
  "empty-environment": ({ inside }) => {
    const names = inside["read-environment"]?.evidence ?? "";
    // bubblewrap sets PWD to the folder of Glovebox's own files, which a worker process knows anyway.
    const holds = names.split(" ").every((name) => ["LIBC", "TZ", "PWD"].includes(name));
    return { holds, evidence: `all there is: ${names}` };
  },
  "resource-limits": ({ outside, insideWithoutNode }) => {
    const limits = ["Max file size", "Max core file size", "Max data size", "Max open files"].map(
      (name) => `${name.slice(4)} ${outside.limits.get(name) ?? "unknown"}`,
    );
    const holds = outside.limits.get("Max file size") === "0" && insideWithoutNode["write-file"]?.isDenied === true;
    return { holds, evidence: limits.join(", ") };
  },
  user: ({ inside, insideWithoutNode }) => {
    const { holds, evidence } = checkDenied(insideWithoutNode, ["become-root", "signal-host"]);
    return { holds, evidence: `${inside["who-am-i"]?.evidence}; ${evidence}` };
  },
  "no-new-privileges": ({ outside }) => {
    const value = outside.status.get("NoNewPrivs");
    return { holds: value === "1", evidence: `the kernel says NoNewPrivs: ${value ?? "nothing"}` };
  },
  "parent-death-signal": ({ diedWithHost }) => ({
    holds: diedWithHost,
    evidence: `a host was killed while its worker was stopped: the worker ${diedWithHost ? "died too" : "lived on"}`,
  }),
  namespaces: ({ outside, insideWithoutNode }) => {
    const { holds, evidence } = checkDenied(insideWithoutNode, ["connect", "signal-host"], WITHOUT_NODE);
    return { holds, evidence: `${evidence}; its own: ${outside.ownNamespaces.join(", ")}` };
  },
  "lean-root": ({ insideWithoutNode }) => {
    const { holds, evidence } = checkDenied(insideWithoutNode, ["read-file", "start-program"], WITHOUT_NODE);
    return { holds, evidence: `${evidence}; its whole root: ${insideWithoutNode["list-root"]?.evidence}` };
  },
  seccomp: ({ outside, insideWithoutNode }) => {
    const mode = outside.status.get("Seccomp");
    const { holds, evidence } = checkDenied(insideWithoutNode, ["connect"], WITHOUT_NODE);
    return { holds: holds && mode === "2", evidence: `the kernel says Seccomp: ${mode ?? "nothing"}; ${evidence}` };
  },
};

function toLayerFinding(layer: Layer, state: LayerState, evidence: DoctorEvidence): LayerFinding {
  const { stops, get } = LAYERS[layer];
  if (state === "missing") return { layer, state, stops, evidence: `to get it: ${get}` };
  if (state !== "holds") return { layer, state, stops, evidence: state === "not-needed" ? "the host is not root" : "" };
  const finding = CHECKS[layer](evidence);
  return { layer, state: finding.holds ? "holds" : "broken", stops, evidence: finding.evidence };
}

interface HostileTool {
  readonly attack: string;
  readonly source: string;
  readonly codes: readonly string[];
  /** Wall time limit in ms. @default 1,000 */
  readonly timeoutMs?: number;
}

/** Time in ms for what another limit should end: a busy machine takes long to fill memory. */
const LONG_TIMEOUT_MS = 60_000;

const HOSTILE_TOOLS: readonly HostileTool[] = [
  { attack: "an endless loop", source: "export default () => { for (;;); }", codes: ["TOOL_TIMEOUT"] },
  {
    attack: "a builtin that nothing interrupts",
    source: "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
    codes: ["TOOL_TIMEOUT"],
  },
  {
    attack: "memory without end",
    source: "export default () => { const all = []; for (;;) all.push(new Array(1000).fill(all.length)); }",
    codes: ["MEMORY_LIMIT"],
    timeoutMs: LONG_TIMEOUT_MS,
  },
  {
    attack: "memory that V8 does not count",
    source: "export default () => { const all = []; for (;;) all.push(new Intl.DateTimeFormat()); }",
    codes: ["MEMORY_LIMIT"],
    timeoutMs: LONG_TIMEOUT_MS,
  },
];
const TIMEOUT_MS = 1_000;

async function runHostileTool(
  glovebox: Glovebox,
  { attack, source, codes, timeoutMs = TIMEOUT_MS }: HostileTool,
): Promise<ToolFinding> {
  const { name } = await glovebox.addTool({ source }, { scope: "global" });
  const began = performance.now();
  const result = await glovebox.execute({ id: "doctor", toolName: name }, { tenantId: `bad: ${attack}`, timeoutMs });
  const ms = Math.round(performance.now() - began);
  const good = await glovebox.execute({ id: "doctor", toolName: "good" }, { tenantId: "good" });
  const code = result.success ? "ok" : result.error.code;
  const peakMiB = Math.round(result.usage.peakBytes / 1024 / 1024);
  const evidence = `${code} after ${ms} ms, its process grew by ${peakMiB} MiB; a neighbour's call: ${good.success ? "ok" : good.error.code}`;
  return { attack, ok: codes.includes(code) && good.success, evidence };
}

async function runHostileTools(signal: AbortSignal): Promise<readonly ToolFinding[]> {
  const limits = { memoryMiB: 64, timeoutMs: LONG_TIMEOUT_MS, cpuMs: LONG_TIMEOUT_MS };
  await using glovebox = await createGlovebox({ cache: false, shutdown: false, tenancy: "multi", limits });
  signal.addEventListener("abort", () => ignoreOutcome(() => glovebox.close()), { once: true });
  await glovebox.addTool({ name: "good", source: "export default () => 1" }, { scope: "global" });
  const findings: ToolFinding[] = [];
  for (const tool of HOSTILE_TOOLS) {
    signal.throwIfAborted();
    findings.push(await runHostileTool(glovebox, tool));
  }
  return findings;
}

/**
 * Examines this machine. Takes about 5 seconds.
 * @param options.signal ends the examination early
 * @throws {ToolError} INTERNAL if no worker process can be started; the signal's reason after an abort
 */
export async function diagnose(options: { readonly signal?: AbortSignal } = {}): Promise<Diagnosis> {
  const { signal = new AbortController().signal } = options;
  const { probePath } = await loadSandboxArtifacts();
  const { report } = await findActiveLayers();
  signal.throwIfAborted();
  const without = LAYER_NAMES.filter((layer) => report[layer] === "missing");
  const hardening = { require: [], without, jitless: false };
  using launcher = await Launcher.create({ script: probePath, hardening, isolatesPerProcess: 1 });
  const evidence = await collectEvidence(launcher, { probePath, without, signal });
  const layers = LAYER_NAMES.map((layer) => toLayerFinding(layer, report[layer], evidence));
  const tools = await runHostileTools(signal);
  return { layers, tools, ok: layers.every(({ state }) => state !== "broken") && tools.every(({ ok }) => ok) };
}

/** Returns the active layers, which a Glovebox determines by starting a worker process. */
async function findActiveLayers(): Promise<{ readonly report: Glovebox["hardening"] }> {
  await using glovebox = await createGlovebox({ cache: false, shutdown: false, workers: { warmProcesses: 0 } });
  return { report: glovebox.hardening };
}
