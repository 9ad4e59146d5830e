// Limits what the server keeps for clients that do not read: the bytes of a tenant's responses, and the time in which a client reads nothing. Without
// them, one client that calls a tool with large outputs could use up the memory and the connections of all tenants.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { RequestError } from "./problem.ts";

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
  /** Connections whose requests are being answered, with the tenant of the request as soon as it is known. */
  readonly #open = new Map<Socket, string | undefined>();
  readonly #byTenant = new Map<string, Set<Socket>>();

  constructor(limits: UnreadLimits = UNREAD_LIMITS) {
    this.#limits = limits;
  }

  /** Follows the connections of a server, and ends those whose clients read nothing. */
  watch(server: Pick<Server, "on" | "setTimeout">): void {
    server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#open.set(socket, undefined);
      response.once("close", () => this.#end(socket));
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
  begin(socket: Socket, tenantId: string): void {
    const sockets = this.#byTenant.get(tenantId) ?? new Set();
    let unread = 0;
    for (const one of sockets) unread += one.writableLength;
    if (unread > this.#limits.perTenant) {
      const message = `The clients of this tenant have not read ${unread} bytes of responses`;
      throw new RequestError("RATE_LIMITED", message, {
        retryAfterSeconds: RETRY_SECONDS,
        details: { limit: this.#limits.perTenant },
      });
    }
    // Its client may be gone already.
    if (!this.#open.has(socket)) return;
    this.#open.set(socket, tenantId);
    this.#byTenant.set(tenantId, sockets.add(socket));
  }

  #end(socket: Socket): void {
    const tenantId = this.#open.get(socket);
    this.#open.delete(socket);
    const sockets = tenantId === undefined ? undefined : this.#byTenant.get(tenantId);
    if (tenantId === undefined || sockets === undefined) return;
    sockets.delete(socket);
    if (sockets.size === 0) this.#byTenant.delete(tenantId);
  }
}
