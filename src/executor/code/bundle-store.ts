// The bundles of an executor: the code of JavaScript tools, with its code cache.
import { hashOf, ObjectError } from "../../host/fleet/objects/object-offers.ts";
import type { RunMessage } from "../../host/fleet/protocol/control-messages.ts";
import type { SentBundle } from "../../host/workers/worker-job.ts";
import { unpack } from "../../sandbox/protocol/length-prefixed.ts";
import { isPlatformModuleName } from "../../sandbox/protocol/platform-modules.ts";
import { ObjectStore, type ObjectStoreOptions } from "./object-store.ts";

export type BundleRef = NonNullable<RunMessage["bundle"]>;

export class BundleStore extends ObjectStore<BundleRef, SentBundle> {
  constructor(options: ObjectStoreOptions) {
    super(options, parseBundle);
  }
}

/** @throws {ObjectError} unless the object is the bundle that the call names */
export function parseBundle(bytes: Uint8Array, { code: sha256 }: BundleRef): SentBundle {
  const [code, codeCache, names, ...others] = unpack(bytes);
  if (code === undefined || codeCache === undefined || names === undefined || others.length > 0)
    throw new ObjectError("An object is not a bundle");
  if (hashOf(code) !== sha256) throw new ObjectError("The code of a bundle does not match its hash");
  const listed: unknown = JSON.parse(Buffer.from(names).toString());
  if (!Array.isArray(listed)) throw new ObjectError("An object is not a bundle");
  const modules = listed.filter((name) => typeof name === "string" && isPlatformModuleName(name));
  return { sha256, code: Buffer.from(code).toString(), codeCache, modules: { names: modules } };
}
