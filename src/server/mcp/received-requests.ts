// Answers requests of MCP sessions that other replicas pass on, because this one has the session. The other replica has checked scope and limits;
// the key and the tenant are checked again, as they are now.
import type { RequestAuthenticator } from "../auth/authentication.ts";
import type { ReceivedRequest } from "../replicas/peers/peer-server.ts";
import type { McpEndpoint } from "./mcp-endpoints.ts";

const PATHS = { mcp: "mcp", "code-mode": "code-mode/mcp" } as const;

export interface ReceivedRequestsDependencies {
  readonly authenticator: Pick<RequestAuthenticator, "authenticate" | "access">;
  readonly endpoints: { readonly [Name in keyof typeof PATHS]: Pick<McpEndpoint, "fetch"> };
  readonly onError: (error: unknown) => void;
}

export class ReceivedRequests {
  readonly #dependencies: ReceivedRequestsDependencies;

  constructor(dependencies: ReceivedRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Answers a request. If it cannot, its exchange ends without the last message. Never rejects. */
  async serve(received: ReceivedRequest): Promise<void> {
    try {
      await this.#serve(received);
    } catch (thrown) {
      if (!received.signal.aborted) this.#dependencies.onError(thrown);
    }
  }

  async #serve({ message, body, signal, answer }: ReceivedRequest): Promise<void> {
    const { authenticator, endpoints } = this.#dependencies;
    const { tenantId, keyId, endpoint, method, headers } = message;
    const principal = await authenticator.authenticate(headers.authorization ?? "");
    const tenant = await authenticator.access(principal?.keyId === keyId ? principal : undefined, tenantId);
    if (typeof tenant === "string") return await answer({ type: "declined", reason: tenant });
    const url = `http://${headers.host ?? "localhost"}/v1/tenants/${encodeURIComponent(tenantId)}/${PATHS[endpoint]}`;
    const request = new Request(url, { method, headers, signal, ...(body === undefined ? {} : { body }) });
    const response = await endpoints[endpoint].fetch(request, { tenant, keyId });
    await answer({ type: "head", status: response.status, headers: Object.fromEntries(response.headers) });
    if (response.body !== null) {
      // Characters that two parts share are sent with the second part.
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      const reader = response.body.getReader();
      const cancel = (): void => void reader.cancel().catch(() => {});
      signal.addEventListener("abort", cancel, { once: true });
      if (signal.aborted) cancel();
      for (;;) {
        const { done, value } = await reader.read();
        const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
        if (text !== "") await answer({ type: "body" }, [text]);
        if (done) break;
      }
      signal.removeEventListener("abort", cancel);
    }
    await answer({ type: "end" });
  }
}
