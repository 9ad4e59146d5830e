// The code of the calls of an executor: bundles of JavaScript tools, and sources and packages of Python tools. Each is read
// from the control plane of a call by its hash, and kept until the last tenant that has used it is deleted.
import { join } from "node:path";
import { hashOf, ObjectError } from "../../host/fleet/objects/object-offers.ts";
import type { RunMessage } from "../../host/fleet/protocol/control-messages.ts";
import type { ObjectRef } from "../../host/fleet/protocol/message-fields.ts";
import type { PythonSources } from "../../host/workers/spawn/python-setup.ts";
import type { SentBundle } from "../../host/workers/worker-job.ts";
import { BundleStore, parseBundle } from "./bundle-store.ts";
import type { ExecutorPython, PackagesRef } from "./executor-python.ts";
import { ObjectStore } from "./object-store.ts";

export interface CallCode {
  readonly bundle: SentBundle;
  /** What the call's input begins with. */
  readonly source?: Buffer | undefined;
  readonly python?: CallPython | undefined;
}

export interface CallPython {
  readonly interpreter: PythonSources;
  /** Identifies the packages: calls with others never share a process. */
  readonly packages: string;
}

/** Reads an object from the control plane of the call. */
export type ReadObject = (ref: ObjectRef) => Promise<Buffer>;

export interface CodeStoreOptions {
  /** Folder of the objects on disk. */
  readonly folder: string;
  /** Largest size of the folder in bytes. */
  readonly maxBytes: number;
  /** Undefined on a machine without Python. */
  readonly python: ExecutorPython | undefined;
}

/** Share of the folder that sources and wheels may use. */
const FILES_SHARE = 0.25;
const NOTHING = new Uint8Array(0);

export class CodeStore {
  readonly #bundles: BundleStore;
  /** Sources and wheels of Python tools. */
  readonly #files: ObjectStore<ObjectRef, Buffer>;
  readonly #python: ExecutorPython | undefined;

  constructor({ folder, maxBytes, python }: CodeStoreOptions) {
    const filesBytes = python === undefined ? 0 : Math.floor(FILES_SHARE * maxBytes);
    this.#bundles = new BundleStore({ folder: join(folder, "bundles"), maxBytes: maxBytes - filesBytes });
    this.#files = new ObjectStore({ folder: join(folder, "python"), maxBytes: filesBytes }, (bytes) => bytes);
    this.#python = python;
  }

  /** Hash of the Python runtime of this machine; undefined if it runs no Python. */
  get runtime(): string | undefined {
    return this.#python?.runtime;
  }

  /** Whether Python calls can start at once. */
  get isPythonReady(): boolean {
    return this.#python?.isReady === true;
  }

  /** Prepares Python, so that calls can start at once. Never rejects. */
  async preparePython(runtime: string): Promise<void> {
    if (runtime === this.runtime) await this.#python?.prepare();
  }

  /** Whether this machine has the language of a call, and the call names its code as it should. */
  canRun({ bundle, python }: RunMessage): boolean {
    if (python === undefined) return bundle !== undefined;
    return bundle === undefined && python.runtime === this.runtime;
  }

  /** Returns the code of a call from memory. */
  known({ bundle: ref, python: needed, tenantId, session }: RunMessage, coarseTime: boolean): CallCode | undefined {
    if (session?.once === true && ref !== undefined) return undefined;
    if (ref !== undefined) {
      const bundle = this.#bundles.known(ref, tenantId);
      return bundle && { bundle };
    }
    const packages: PackagesRef = { wheels: needed?.wheels?.sha256, coarseTime };
    const interpreter = this.#python?.known(packages);
    const source = needed?.source === undefined ? undefined : this.#files.known(needed.source, tenantId);
    if (interpreter === undefined || (needed?.source !== undefined && source === undefined)) return undefined;
    return toPythonCode(interpreter, packages, source);
  }

  /**
   * Returns the code of a call from memory, the disk or its control plane.
   * @param onRead called when everything has been read, before Python is prepared, which can take seconds
   * @throws {Error} as a rejection, if an object is missing or invalid, or Python cannot be prepared
   */
  async load(
    { bundle: ref, python: needed, tenantId, session }: RunMessage,
    coarseTime: boolean,
    read: ReadObject,
    onRead: () => void,
  ): Promise<CallCode> {
    // The cells of a session are rarely run twice.
    if (ref !== undefined && session?.once === true) return { bundle: parseBundle(await read(ref), ref) };
    if (ref !== undefined) return { bundle: await this.#bundles.get(ref, tenantId, () => read(ref)) };
    if (needed === undefined || this.#python === undefined) throw new ObjectError("A call has no code");
    const get = async (file: ObjectRef | undefined): Promise<Buffer | undefined> =>
      file && (await this.#files.get(file, tenantId, () => read(file)));
    const packages: PackagesRef = { wheels: needed.wheels?.sha256, coarseTime };
    const source = await get(needed.source);
    const known = this.#python.known(packages);
    if (known !== undefined) return toPythonCode(known, packages, source);
    const wheels = await get(needed.wheels);
    onRead();
    return toPythonCode(await this.#python.open(packages, wheels), packages, source);
  }

  /** Deletes what only this tenant has used. Its calls have ended. */
  async deleteTenant(tenantId: string): Promise<void> {
    await Promise.all([this.#bundles.deleteTenant(tenantId), this.#files.deleteTenant(tenantId)]);
  }
}

function toPythonCode(interpreter: PythonSources, packages: PackagesRef, source: Buffer | undefined): CallCode {
  const key = hashOf(Buffer.from(JSON.stringify(packages))).slice(0, 16);
  // Each process has the runtime from its start on.
  const bundle = { sha256: interpreter.sha256, code: "", codeCache: NOTHING, modules: { names: [] } };
  return { bundle, source, python: { interpreter, packages: key } };
}
