// Subscribes to changes of a server's tools on one connection (revision 2026-07-28), and again when the subscription was lost.
import type { Client, McpSubscription } from "@modelcontextprotocol/client";
import { currentExchange } from "./guarded-transport.ts";

/** Delays before a lost subscription is opened again. After the last of them, it is not opened again. */
const RELISTEN_MS = [1_000, 5_000, 30_000, 30_000, 30_000] as const;
/** A subscription that lasted longer resets these delays. */
const STABLE_MS = 60_000;

/** The connection disposes it when it closes. */
export class ChangeSubscription implements Disposable {
  readonly #client: Client;
  readonly #timeoutMs: number;
  readonly #onToolsChanged: () => void;
  #subscription: McpSubscription | undefined;
  #relisten: NodeJS.Timeout | undefined;
  #relistenCount = 0;
  #isDisposed = false;

  constructor(client: Client, timeoutMs: number, onToolsChanged: () => void) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.#onToolsChanged = onToolsChanged;
  }

  get isOpen(): boolean {
    return this.#subscription !== undefined;
  }

  /** Subscribes. Failures are ignored: without a subscription, listings just expire sooner. */
  async listen(): Promise<void> {
    const begun = performance.now();
    try {
      const subscription = await currentExchange.run(undefined, () =>
        this.#client.listen({ toolsListChanged: true }, { timeout: this.#timeoutMs }),
      );
      this.#subscription = subscription;
      await subscription.closed;
      if (this.#subscription === subscription) this.#subscription = undefined;
      // Changes during the gap between two subscriptions are not reported.
      if (!this.#isDisposed) this.#onToolsChanged();
    } catch {
      // Opened again below.
    }
    if (performance.now() - begun > STABLE_MS) this.#relistenCount = 0;
    const delayMs = RELISTEN_MS[this.#relistenCount];
    this.#relistenCount += 1;
    if (this.#isDisposed || delayMs === undefined) return;
    this.#relisten = setTimeout(() => void this.listen(), delayMs).unref();
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearTimeout(this.#relisten);
  }
}
