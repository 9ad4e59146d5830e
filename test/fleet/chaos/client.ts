// The client of the chaos test: sends calls to the servers, as users do, and notes each operation with its times.
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment, Member } from "../../support/deployment.ts";
import type { CallView, Operation, OperationKind } from "./history.ts";

/** Longest time in ms that a client waits for a response. */
const PATIENCE_MS = 60_000;
const READ_PATIENCE_MS = 10_000;
const RETRY_MS = 150;
const FINAL: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);

interface ShownCall {
  readonly id?: string;
  readonly state?: string;
  readonly effects?: string;
  readonly output?: unknown;
  readonly error?: { readonly code?: string } | null;
}

/** Returns what a response says of a call. Undefined if it is the error of a request. */
export function toView({ id, state, effects, output, error }: ShownCall): CallView | undefined {
  if (id === undefined || state === undefined || effects === undefined) return undefined;
  const text = output === undefined || output === null ? null : JSON.stringify(output);
  return { callId: id, state, effects, code: error?.code ?? null, output: text };
}

export class ChaosClient {
  readonly #deployment: Deployment;
  readonly operations: Operation[] = [];
  /** Requests without a response. */
  unanswered = 0;

  constructor(deployment: Deployment) {
    this.#deployment = deployment;
  }

  /** Any server. */
  #server(): Member {
    const { servers } = this.#deployment;
    return servers[Math.floor(Math.random() * servers.length)] as Member;
  }

  /** Sends one request to any server, and notes what comes back. */
  async #send(n: number, kind: OperationKind, path: string, init: RequestInit = {}): Promise<CallView | undefined> {
    const { headers, ...rest } = init;
    const invokedAt = performance.now();
    const timeoutMs = kind === "read" ? READ_PATIENCE_MS : PATIENCE_MS;
    try {
      const response = await fetch(`${this.#server().url}/v1/tenants/acme${path}`, {
        ...rest,
        signal: AbortSignal.timeout(timeoutMs),
        headers: { authorization: `Bearer ${this.#deployment.adminKey}`, ...(headers as { [name: string]: string }) },
      });
      const view = toView((await response.json()) as ShownCall);
      const returnedAt = performance.now();
      if (view !== undefined) this.operations.push({ n, kind, invokedAt, returnedAt, view });
      else if (kind === "read" && response.status === 404)
        this.operations.push({ n, kind, invokedAt, returnedAt, isMissing: true });
      // A request that was rejected has asked for nothing; the request of a call may still be seen by the tool if that is false.
      else this.operations.push({ n, kind, invokedAt });
      return view;
    } catch {
      this.unanswered += 1;
      this.operations.push({ n, kind, invokedAt });
      return undefined;
    }
  }

  /** Makes a call, once: without an idempotency key, a client cannot repeat it. */
  async call(n: number, tool: string, input: object): Promise<void> {
    const headers = { "content-type": "application/json" };
    await this.#send(n, "call", `/tools/${tool}/calls`, { method: "POST", headers, body: JSON.stringify({ input }) });
  }

  /** Adds a call to the queue: again with the same key, at any server, until one has accepted it. Reads it until it has ended, and after that. */
  async submit(n: number, tool: string, input: object, over: AbortSignal): Promise<void> {
    const headers = { "content-type": "application/json", prefer: "respond-async", "idempotency-key": `n-${n}` };
    const init = { method: "POST", headers, body: JSON.stringify({ input }) };
    let view: CallView | undefined;
    for (;;) {
      view = await this.#send(n, "submit", `/tools/${tool}/calls`, init);
      if (view !== undefined) break;
      await sleep(RETRY_MS);
      if (over.aborted) return;
    }
    const path = `/calls/${view.callId}`;
    while (!over.aborted) {
      view = await this.#send(n, "read", path);
      if (view !== undefined && FINAL.has(view.state)) break;
      await sleep(RETRY_MS * (1 + Math.random()));
    }
    // Later reads, and a repeated request, show the same.
    await this.#send(n, "read", path);
    await this.#send(n, "submit", `/tools/${tool}/calls`, init);
  }
}
