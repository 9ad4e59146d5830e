// Limits what the server keeps for clients that do not read: the bytes of a tenant's responses, and the time in which a client reads nothing. Without
// them, one client that calls a tool with large outputs could use up the memory and the connections of all tenants.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { RequestError } from "./request-error.ts";

const RETRY_SECONDS = 1;

export interface UnreadLimits {
  /** Longest time in ms in which a client reads nothing of a response that waits for it. */
  readonly unreadMs: number;
  /** Bytes of unread responses above which a tenant's further requests are rejected. */
  readonly perTenant: number;
}

export const UNREAD_LIMITS: UnreadLimits = { unreadMs: 60_000, perTenant: 128 * 1024 * 1024 };

export class UnreadResponses {
  readonly #limits: UnreadLimits;
  /** Number of responses of each connection that are not complete. A client may send requests before it has read earlier responses. */
  readonly #open = new Map<Socket, number>();
  readonly #byTenant = new Map<string, Set<ServerResponse>>();

  constructor(limits: UnreadLimits = UNREAD_LIMITS) {
    this.#limits = limits;
  }

  /** Follows the connections of a server, and ends those whose clients read nothing. */
  watch(server: Pick<Server, "on" | "setTimeout">): void {
    server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#open.set(socket, (this.#open.get(socket) ?? 0) + 1);
      response.once("close", () => {
        const others = (this.#open.get(socket) ?? 1) - 1;
        if (others > 0) this.#open.set(socket, others);
        else this.#open.delete(socket);
      });
    });
    // Node counts each part that a client reads as activity. A connection without a request is idle.
    server.setTimeout(this.#limits.unreadMs, (socket) => {
      const isWaiting = this.#open.has(socket) && socket.writableLength === 0;
      if (!isWaiting) socket.destroy();
    });
  }

  /**
   * Counts the response of a request for a tenant.
   * @throws {RequestError} RATE_LIMITED if the tenant's clients have too many bytes to read
   */
  begin(response: ServerResponse, tenantId: string): void {
    const responses = this.#byTenant.get(tenantId) ?? new Set();
    let unread = 0;
    // Also the bytes of a response that waits for the end of an earlier one on its connection.
    for (const one of responses) unread += one.writableLength;
    if (unread > this.#limits.perTenant) {
      const message = `The clients of this tenant have not read ${unread} bytes of responses`;
      throw new RequestError("RATE_LIMITED", message, {
        retryAfterSeconds: RETRY_SECONDS,
        details: { limit: this.#limits.perTenant },
      });
    }
    // Its client may be gone already.
    if (response.closed) return;
    this.#byTenant.set(tenantId, responses.add(response));
    response.once("close", () => {
      responses.delete(response);
      if (responses.size === 0) this.#byTenant.delete(tenantId);
    });
  }
}
