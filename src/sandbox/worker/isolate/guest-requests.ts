// Responds to the synchronous requests of one guest: scripts of platform modules, files of Python, random bytes and cryptography.
import ivm from "isolated-vm";
import type { GuestRequestKind } from "../../protocol/guest-messages.ts";
import { isPlatformModuleName, type PlatformModuleName } from "../../protocol/platform-modules.ts";
import type { CryptoAnswer } from "../crypto/answer.ts";
import type { GuestCrypto } from "../crypto/guest-crypto.ts";
import { type Deterministic, RandomBytes } from "../random-bytes.ts";
import type { Engine } from "./engine.ts";

export interface GuestRequestOptions {
  readonly engine: Engine;
  readonly memoryMiB: number;
  readonly deterministic: Deterministic | undefined;
  /** Delivers the result of a cryptography job to the guest. Resolves when the guest has read it. */
  readonly answer: (id: number, text: string, buffers: readonly unknown[]) => Promise<void>;
  /** Called when a cryptography job has been accepted. */
  readonly onBegun: (id: number) => void;
  /** Called when no cryptography job runs any more. */
  readonly onIdle: () => void;
}

export class GuestRequests {
  readonly #options: GuestRequestOptions;
  /** Created on the guest's first request. */
  #crypto: GuestCrypto | undefined;
  #random: RandomBytes | undefined;
  /** Platform modules that the loaded bundle's isolates have used. */
  usedModules: Set<PlatformModuleName> | undefined;

  constructor(options: GuestRequestOptions) {
    this.#options = options;
  }

  /** Whether a cryptography job of the guest runs on another thread. */
  get isBusy(): boolean {
    return this.#crypto?.isBusy === true;
  }

  /** Time in ms that cryptography has taken. */
  get busyMs(): number {
    return this.#crypto?.busyMs ?? 0;
  }

  /**
   * Responds to a request. It must not throw, because the error would expose the worker's stack to the guest. It must not run code in the
   * isolate, because V8 would then run the guest's microtasks in the middle of its current task (measured).
   */
  answer(kind: GuestRequestKind, parts: readonly unknown[]): unknown {
    const { engine } = this.#options;
    const [a, b, ...rest] = parts.filter((part) => part !== undefined);
    try {
      if (kind === "module" && isPlatformModuleName(a)) {
        this.usedModules?.add(a);
        return engine.modules.source(a);
      }
      if (kind === "asset" && typeof a === "string") {
        const asset = engine.assets.get(a);
        return asset && toTransferable(new Uint8Array(asset).buffer);
      }
      if (kind === "random") return toTransferable(this.#randomBytes.take(a));
      if (kind === "crypto" && typeof a === "string") {
        return toTransferable(this.#guestCrypto.respond(a, b === undefined ? rest : [b, ...rest]));
      }
      if (kind === "job" && typeof a === "number" && typeof b === "string") return this.#guestCrypto.begin(a, b, rest);
    } catch {
      // The module's script cannot be read, or memory is exhausted.
    }
    return undefined;
  }

  /** Keys and signatures do not use these, but always Node's random numbers. */
  get #randomBytes(): RandomBytes {
    this.#random ??= new RandomBytes(this.#options.deterministic?.seed);
    return this.#random;
  }

  get #guestCrypto(): GuestCrypto {
    const { engine, memoryMiB, answer, onBegun, onIdle } = this.#options;
    if (this.#crypto !== undefined) return this.#crypto;
    const Crypto = engine.loadCrypto();
    this.#crypto = new Crypto({
      jobQueue: engine.jobQueue,
      memoryMiB,
      answer: (id, text, buffers) => answer(id, text, buffers.map(toTransferable)),
      onBegun,
      onIdle,
    });
    return this.#crypto;
  }

  dispose(): void {
    this.#crypto?.dispose();
  }
}

/** Moves bytes into the isolate without a copy. Returns text unchanged. */
function toTransferable(answer: CryptoAnswer): unknown {
  if (typeof answer === "string") return answer;
  return new ivm.ExternalCopy(answer, { transferOut: true }).copyInto({ release: true, transferIn: true });
}
