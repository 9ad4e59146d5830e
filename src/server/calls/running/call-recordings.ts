// Decides which calls are recorded, by their tenant's policy, and keeps a recording until the record of its call is stored.
import { type CallContext, type CallRecording, matchesName, redactRecording } from "../../../host/index.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";

/** More recordings than calls that end at the same time. */
const MAX_KEPT = 1_000;

export class CallRecordings {
  /** Recordings as JSON text, by the ids of calls that have run and are not stored yet. */
  readonly #made = new Map<string, string>();

  /** Returns the part of a call's context that records it, if its tenant's policy wants that. A call in a session cannot be replayed. */
  contextOf(
    { id, tool_name: toolName, session_id: sessionId }: Pick<CallRow, "id" | "tool_name" | "session_id">,
    { policy: { recording } }: Pick<TenantRecord, "policy">,
  ): Pick<CallContext, "record"> {
    if (recording === undefined || sessionId !== null) return {};
    if (!recording.tools.some((pattern) => matchesName(pattern, toolName))) return {};
    // A rate of 1 records every call, because random numbers are below 1.
    if (Math.random() >= recording.rate) return {};
    const { maxBytes } = recording;
    return {
      record: {
        maxBytes,
        ...(recording.redact ? { redact: redactRecording } : {}),
        onRecording: (made) => this.#keep(id, made, maxBytes),
      },
    };
  }

  #keep(id: string, recording: CallRecording, maxBytes: number): void {
    // An incomplete recording cannot be replayed.
    if (recording.incomplete !== undefined) return;
    const text = JSON.stringify(recording);
    // The limit of the library does not count escapes, so the text can be larger.
    if (text.length > maxBytes * 2) return;
    this.#made.set(id, text);
    // Only a call whose record could not be stored leaves its recording behind.
    const [oldest] = this.#made.keys();
    if (this.#made.size > MAX_KEPT && oldest !== undefined) this.#made.delete(oldest);
  }

  /** Returns the recording of a call, and forgets it. */
  take(id: string): string | undefined {
    const text = this.#made.get(id);
    this.#made.delete(id);
    return text;
  }
}
