// The bundles that a control plane offers to executors: each is packed when one reads it, and kept for a while, because
// several executors often read it at the same time.
import { pack } from "../../../sandbox/protocol/length-prefixed.ts";
import type { SentBundle } from "../../workers/worker-job.ts";
import type { ObjectRef } from "../protocol/message-fields.ts";
import { hashOf } from "./object-offers.ts";

/** Largest size of the packed bundles that are kept, in bytes. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** A bundle as an object. */
export interface PackedBundle {
  readonly ref: ObjectRef;
  /** Its code, its code cache and the names of its modules. */
  readonly read: () => Uint8Array;
}

interface Known extends PackedBundle {
  /** Names of its modules when it was packed. They can become more. */
  readonly modules: number;
}

export class PackedBundles {
  readonly #known = new WeakMap<SentBundle, Known>();
  /** By the hash of their object. The one used last is the last one. */
  readonly #kept = new Map<string, Uint8Array>();
  #keptBytes = 0;

  of(bundle: SentBundle): PackedBundle {
    const { code, codeCache, modules } = bundle;
    const known = this.#known.get(bundle);
    if (known !== undefined && known.modules === modules.names.length) return known;
    const names = Buffer.from(JSON.stringify(modules.names));
    const packBundle = (): Uint8Array => pack([Buffer.from(code), codeCache, names]);
    const bytes = packBundle();
    const sha256 = hashOf(bytes);
    const packed: Known = {
      ref: { name: sha256, sha256, bytes: bytes.byteLength },
      read: () => this.#kept.get(sha256) ?? this.#keep(sha256, packBundle()),
      modules: modules.names.length,
    };
    this.#known.set(bundle, packed);
    this.#keep(sha256, bytes);
    return packed;
  }

  #keep(sha256: string, bytes: Uint8Array): Uint8Array {
    const replaced = this.#kept.get(sha256);
    this.#kept.delete(sha256);
    this.#kept.set(sha256, bytes);
    this.#keptBytes += bytes.byteLength - (replaced?.byteLength ?? 0);
    for (const [oldest, other] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES || oldest === sha256) break;
      this.#kept.delete(oldest);
      this.#keptBytes -= other.byteLength;
    }
    return bytes;
  }
}
