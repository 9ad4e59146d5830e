// Defines a call as a request describes it, who makes it, and the events of a streamed one.
import { type LogEntry, type Progress, ToolError } from "../../host/index.ts";
import type { CallerWatch } from "../../host/mcp/server/index.ts";
import type { Actor } from "../records/audit/audit.ts";
import type { WholeCall } from "../records/calls/calls.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";

/** A call as a request describes it. */
export interface CallRequest {
  readonly toolName: string;
  readonly input: unknown;
  readonly version?: number | undefined;
  readonly alias?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Who approves the call at once, if it needs an approval. The route has checked that they may. */
  readonly approvedBy?: Actor | undefined;
}

/**
 * Returns the idempotency key of a call that a schedule or a trigger makes. It begins with a character that no client can send, so that no call of a
 * client has the same key.
 * @param ownerId of the schedule or trigger
 */
export const ownKeyOf = (ownerId: string, part: string | number): string => `/${ownerId}:${part}`;

export interface CallCaller {
  readonly tenant: TenantRecord;
  readonly keyId: string;
  /** Aborts when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
  /** Returns whether key and tenant are still valid. A body that is read after their check can come slowly. Default: they are */
  readonly isValid?: (() => boolean) | undefined;
  /** Observes the key and the tenant of a call that waits while no request is open. */
  readonly watch?: (() => CallerWatch) | undefined;
}

/** @throws {ToolError} CANCELLED if the key was revoked or has expired, or the tenant was deleted */
export function checkCaller({ isValid }: CallCaller): void {
  if (isValid?.() === false) throw new ToolError("CANCELLED", "The key of the request is not valid any more");
}

/** Returns who acts, as the audit log shows a caller over MCP. */
export const keyActorOf = ({ keyId }: CallCaller): Actor => ({ name: `key:${keyId}`, ip: null, requestId: null });

/** Events of a streamed call, from `started` to `result`. */
export type CallProgressEvent =
  | { readonly event: "started"; readonly data: { readonly id: string } }
  | { readonly event: "approval"; readonly data: { readonly approvalId: string; readonly callId: string } }
  | { readonly event: "log"; readonly data: LogEntry }
  | { readonly event: "progress"; readonly data: Progress }
  | { readonly event: "chunk"; readonly data: unknown }
  | { readonly event: "result"; readonly data: WholeCall };

/** The idempotency key of a request was used before for something else or by another caller, or its call has not ended. */
export class IdempotencyConflict extends Error {
  override readonly name = "IdempotencyConflict";
  readonly isOtherRequest: boolean;

  constructor(isOtherRequest: boolean) {
    super(
      isOtherRequest
        ? "The Idempotency-Key was used before for another request, or by another API key or user. Use a new one for each request"
        : "The call with this Idempotency-Key has not ended. Send the same request again later: it returns the call",
    );
    this.isOtherRequest = isOtherRequest;
  }
}
