// The objects that an executor reads for a call: the bundle of a JavaScript tool, or the source and the wheels of a Python
// tool. Executors keep them by their hash.
import type { RemotePython, SharedText } from "../../workers/spawn/python-setup.ts";
import type { SentBundle } from "../../workers/worker-job.ts";
import type { RunMessage } from "../protocol/control-messages.ts";
import type { ObjectRef } from "../protocol/message-fields.ts";
import { hashOf } from "./object-offers.ts";
import { PackedBundles } from "./packed-bundles.ts";

/** A shorter source is part of the call: reading an object takes a round trip. */
const LEAST_SHARED_LENGTH = 4_096;

/** An object that the executor may read. */
export interface OfferedObject {
  readonly ref: ObjectRef;
  readonly read: () => Uint8Array;
}

/** The part of a job that decides which objects it needs. */
export interface ObjectJob {
  readonly bundle: SentBundle;
  readonly input: string | Uint8Array;
  readonly python?: RemotePython | undefined;
}

/** The fields of a `run` message that name its objects, and the rest of its input. */
export interface CallObjects extends Pick<RunMessage, "bundle" | "python"> {
  readonly offered: readonly OfferedObject[];
  /** The input without what the executor reads as an object. */
  readonly input: string | Uint8Array;
  /** Hash of the code that the executor keeps. */
  readonly sha256: string;
}

export class CallObjectsFactory {
  readonly #bundles = new PackedBundles();
  readonly #sources = new WeakMap<SharedText, OfferedObject>();
  readonly #wheels = new WeakMap<Uint8Array, OfferedObject>();

  of({ bundle, input, python }: ObjectJob): CallObjects {
    if (python === undefined) {
      const offered = this.#bundles.of(bundle);
      const { sha256 } = bundle;
      return { bundle: { code: sha256, ...offered.ref }, offered: [offered], input, sha256 };
    }
    const { environment, source: text } = python;
    const { packedWheels } = environment;
    const source = text === undefined || text.text.length < LEAST_SHARED_LENGTH ? undefined : this.#sourceOf(text);
    const wheels = packedWheels === undefined ? undefined : this.#wheelsOf(packedWheels);
    return {
      python: {
        runtime: environment.key,
        ...(source === undefined ? {} : { source: source.ref }),
        ...(wheels === undefined ? {} : { wheels: wheels.ref }),
      },
      offered: [source, wheels].filter((one) => one !== undefined),
      input: source === undefined || text === undefined ? input : withoutStart(input, text.text, source.ref.bytes),
      sha256: source?.ref.sha256 ?? bundle.sha256,
    };
  }

  #sourceOf(source: SharedText): OfferedObject {
    const known = this.#sources.get(source);
    if (known !== undefined) return known;
    const offered = toObject(() => Buffer.from(source.text));
    this.#sources.set(source, offered);
    return offered;
  }

  #wheelsOf(packed: Uint8Array): OfferedObject {
    const known = this.#wheels.get(packed);
    if (known !== undefined) return known;
    const offered = toObject(() => packed);
    this.#wheels.set(packed, offered);
    return offered;
  }
}

/** Names an object by its hash, so that requests for it are the same in each call. */
function toObject(read: () => Uint8Array): OfferedObject {
  const bytes = read();
  const sha256 = hashOf(bytes);
  return { ref: { name: sha256, sha256, bytes: bytes.byteLength }, read };
}

const withoutStart = (input: string | Uint8Array, start: string, startBytes: number): string | Uint8Array =>
  typeof input === "string" ? input.slice(start.length) : input.subarray(startBytes);
