// Runs calls that other replicas pass on, because this one has their session: as those of its own clients, with the same checks, limits and records.
import { ToolError } from "../../../host/index.ts";
import { ApprovalConflict } from "../../approvals/approval-service.ts";
import type { RequestAuthenticator } from "../../auth/authentication.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import type { PeerCallMessage } from "../../replicas/peers/messages.ts";
import type { ReceivedCall } from "../../replicas/peers/peer-server.ts";
import { type CallRequest, IdempotencyConflict } from "../call-request.ts";
import { toNewRow } from "../new-call.ts";
import type { DirectCalls } from "../running/direct-calls.ts";
import type { StreamSink } from "../running/journaled-call-runner.ts";
import type { StartingCalls } from "../running/starting-calls.ts";
import { toResult } from "./peer-answers.ts";

export interface ReceivedCallsDependencies {
  readonly database: Pick<OpenDatabase, "clock">;
  readonly authenticator: Pick<RequestAuthenticator, "access" | "caller">;
  readonly direct: Pick<DirectCalls, "runHere">;
  readonly starting: Pick<StartingCalls, "add">;
  /** Returns whether this replica runs further calls. */
  readonly acceptsCalls: () => boolean;
  readonly onError: (error: unknown) => void;
}

export class ReceivedCalls {
  readonly #dependencies: ReceivedCallsDependencies;

  constructor(dependencies: ReceivedCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Runs a call, and sends its events and what ends it. Never rejects. */
  async run(call: ReceivedCall): Promise<void> {
    try {
      await this.#run(call);
    } catch (thrown) {
      this.#reportThrown(call, thrown);
    }
  }

  async #run({ message, input, signal, answer }: ReceivedCall): Promise<void> {
    const { database, authenticator, direct, starting, acceptsCalls } = this.#dependencies;
    const { tenantId, keyId } = message;
    if (!acceptsCalls()) return answer({ type: "declined", reason: "stopping" });
    using _starting = starting.add(message.callId);
    const tenant = await authenticator.access(await authenticator.caller(keyId, tenantId), tenantId);
    if (typeof tenant === "string") return answer({ type: "declined", reason: tenant });
    const request = toRequest(message, input);
    const keys = { tenantId, keyId, now: database.clock.now() };
    const outcome = await direct.runHere({
      row: { ...toNewRow(request, keys, message.mode), id: message.callId },
      request,
      caller: { tenant, keyId, signal },
      ...(message.mode === "stream" ? { sink: toSink(answer) } : {}),
    });
    // Never passed on twice.
    if ("home" in outcome) return answer({ type: "declined", reason: "not_home" });
    if ("waiting" in outcome) return answer({ type: "waiting", callId: outcome.waiting.id });
    const { message: result, texts } = toResult(outcome.ended, request);
    answer(result, texts);
  }

  #reportThrown({ answer }: ReceivedCall, thrown: unknown): void {
    if (thrown instanceof IdempotencyConflict || thrown instanceof ApprovalConflict) {
      const isKey = thrown instanceof IdempotencyConflict;
      const because = isKey ? (thrown.isOtherRequest ? "other_request" : "open_call") : "approval";
      answer({ type: "conflict", because, message: thrown.message });
      return;
    }
    if (!(thrown instanceof ToolError)) this.#dependencies.onError(thrown);
    const error = thrown instanceof ToolError ? thrown : new ToolError("INTERNAL", "The server failed");
    const { code, message, recoverable, details } = error;
    answer({
      type: "thrown",
      code,
      message: message.slice(0, 65_536),
      recoverable,
      ...(details === undefined ? {} : { details }),
    });
  }
}

/** @throws {ToolError} PARAM_INVALID for an input that is not JSON */
function toRequest(message: PeerCallMessage, input: string | undefined): CallRequest {
  const { toolName, sessionId, version, alias, timeoutMs, idempotencyKey, approvedBy } = message;
  let value: unknown;
  try {
    value = input === undefined ? undefined : JSON.parse(input);
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", "The input is not JSON", { cause });
  }
  return { toolName, input: value, sessionId, version, alias, timeoutMs, idempotencyKey, approvedBy };
}

const toSink = (answer: ReceivedCall["answer"]): StreamSink => ({
  onLog: (entry) => answer({ type: "log", entry }),
  onProgress: (progress) => answer({ type: "progress", progress }),
  onChunk: (value) => answer({ type: "chunk" }, [JSON.stringify(value ?? null)]),
});
