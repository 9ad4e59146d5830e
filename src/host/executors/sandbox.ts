// Creates the executor of a sandboxed tool. Each of its calls is a SandboxRun (sandbox-run.ts).
import { type ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { RunCode } from "../runs/run-pin.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { SentBundle } from "../workers/worker-job.ts";
import type { ToolExecutor } from "./executor.ts";
import { SandboxRun } from "./sandbox-run.ts";
import type { SandboxTool } from "./sandbox-tool.ts";
import { WarmVersion } from "./warm-version.ts";

export type { SandboxSession, SandboxTool } from "./sandbox-tool.ts";

/** Creates the executor of one sandboxed tool, or of the runs of one session. */
export function createSandboxExecutor(tool: SandboxTool, pool: CallPool): ToolExecutor {
  const { bundle, codeCache, modules } = tool;
  const sent: SentBundle = { sha256: bundle.sha256, code: bundle.code, codeCache, modules };
  const warm = new WarmVersion(tool, sent, pool);
  const profileOf = ({ limits, tenant, context }: PreparedCall): WorkerToolProfile =>
    warm.profileOf(
      { limits, coarseTime: tenant.coarseTime },
      context.logSourceLocations === true,
      context.record !== undefined,
    );
  return {
    source: tool.python === undefined ? "sandbox" : "python",
    sourceId: tool.sourceId,
    wants: "text",
    warm,
    retire: () => warm.retire(),
    execute: async (call, log) => {
      warm.begin();
      try {
        const { replay, run } = call.context;
        const pinned = replay ?? run;
        if (pinned === undefined && call.definition.durable === true) throw needsRun(call.definition.name);
        if (pinned === undefined)
          return await new SandboxRun({ tool, sent, profile: profileOf(call), call, log, pool }).run();
        // A profile of its own, which the worker process forgets after the call.
        const profile = await pinned.profileOf(profileOf(call), call.limits, toRunCode(tool));
        try {
          return await new SandboxRun({ tool, sent, profile, call, log, pool }).run();
        } finally {
          pool.release([profile], undefined);
        }
      } finally {
        warm.end();
      }
    },
  };
}

const toRunCode = ({ bundle, python }: SandboxTool): RunCode =>
  python === undefined
    ? { key: bundle.sha256 }
    : { key: python.toolKey, python: { version: python.version, runtime: bundle.sha256 } };

const needsRun = (name: string): ToolError =>
  unavailable(
    "needs_run",
    `The tool "${name}" is durable and runs only as a durable run: start it with runs.start(), glovebox runs start, or the runs of the HTTP API`,
  );
