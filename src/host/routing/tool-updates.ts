// Orders the changes of a tool. Each change is numbered when it is requested. Builds finish in any order, so a change that finishes after a
// later one leaves the registry unchanged.

/** A requested change. Dispose it when the tool is registered or has failed. */
export interface ToolUpdate extends Disposable {
  /** Returns whether a change that was requested later is in the registry already. */
  isOvertaken(toolName: string, tenantId: string | undefined): boolean;
  /** Records that this change is in the registry. */
  done(toolName: string, tenantId: string | undefined): void;
}

// A tool's name has no line break in it.
const keyOf = (toolName: string, tenantId: string | undefined): string =>
  tenantId === undefined ? toolName : `${toolName}\n${tenantId}`;

export class ToolUpdates {
  #last = 0;
  /** Numbers of the changes whose tools are being built. */
  readonly #pending = new Set<number>();
  /** By tool: number of the latest change that is in the registry, for as long as an earlier one is being built. */
  readonly #latest = new Map<string, number>();

  begin(): ToolUpdate {
    this.#last += 1;
    const number = this.#last;
    this.#pending.add(number);
    return {
      isOvertaken: (toolName, tenantId) => (this.#latest.get(keyOf(toolName, tenantId)) ?? 0) > number,
      done: (toolName, tenantId) => void this.#latest.set(keyOf(toolName, tenantId), number),
      [Symbol.dispose]: () => {
        this.#pending.delete(number);
        this.#forget();
      },
    };
  }

  #forget(): void {
    // A Set keeps the order of insertion: the first is the oldest.
    const [oldest = Number.POSITIVE_INFINITY] = this.#pending;
    for (const [key, number] of this.#latest) if (number < oldest) this.#latest.delete(key);
  }
}
