// node:v8: serialization. What would inspect or control the engine throws.
import { Buffer } from "../buffer/node-buffer.ts";
import { inspect } from "../console/inspect.ts";
import { unsupportedMembers } from "../shared/unsupported-members.ts";
import { Deserializer } from "./v8-deserializer.ts";
import { BUFFER_INDEX, VIEWS } from "./v8-format.ts";
import { nameOfView, Serializer } from "./v8-serializer.ts";

const ENGINE = "a tool cannot control the engine";

/** Writes views as Node does: with their own bytes only, instead of their whole buffer. */
class DefaultSerializer extends Serializer {
  constructor() {
    super();
    this._setTreatArrayBufferViewsAsHostObjects(true);
  }

  _writeHostObject(view: ArrayBufferView): void {
    const isBuffer = (view as { readonly constructor?: unknown }).constructor === Buffer;
    const index = isBuffer ? BUFFER_INDEX : VIEWS.findIndex(([, name]) => name === nameOfView(view));
    if (index === -1) throw new this._getDataCloneError(`Unserializable host object: ${inspect(view)}`);
    this.writeUint32(index);
    this.writeUint32(view.byteLength);
    this.writeRawBytes(view);
  }
}

class DefaultDeserializer extends Deserializer {
  override _readHostObject = (): object => {
    const index = this.readUint32();
    const byteLength = this.readUint32();
    const copy = new Uint8Array(this.readRawBytes(byteLength));
    if (index === BUFFER_INDEX) return Buffer.from(copy.buffer, 0, byteLength);
    const name = VIEWS[index]?.[1];
    const View = name === undefined ? undefined : (globalThis as unknown as { readonly [name: string]: unknown })[name];
    if (typeof View !== "function") throw new Error("Unable to deserialize cloned data.");
    const { BYTES_PER_ELEMENT: size = 1 } = View as { readonly BYTES_PER_ELEMENT?: number };
    return new (View as new (buffer: ArrayBuffer, offset: number, length: number) => object)(
      copy.buffer,
      0,
      Math.floor(byteLength / size),
    );
  };
}

function serialize(value: unknown): Buffer {
  const serializer = new DefaultSerializer();
  serializer.writeHeader();
  serializer.writeValue(value);
  return serializer.releaseBuffer();
}

function deserialize(buffer: ArrayBufferView): unknown {
  const deserializer = new DefaultDeserializer(buffer);
  deserializer.readHeader();
  return deserializer.readValue();
}

const v8 = {
  ...unsupportedMembers(
    "v8",
    ENGINE,
    "GCProfiler getCppHeapStatistics getHeapCodeStatistics getHeapSnapshot getHeapSpaceStatistics queryObjects setFlagsFromString setHeapProfileNearHeapLimit setHeapSnapshotNearHeapLimit startCpuProfile startHeapProfile stopCoverage takeCoverage writeHeapSnapshot",
  ),
  DefaultDeserializer,
  DefaultSerializer,
  Deserializer,
  Serializer,
  deserialize,
  serialize,
  cachedDataVersionTag: (): number => 0,
  isStringOneByteRepresentation: (text: unknown): boolean => typeof text === "string" && /^[\0-\xff]*$/.test(text),
  promiseHooks: unsupportedMembers("v8.promiseHooks", ENGINE, "createHook onAfter onBefore onInit onSettled"),
  getHeapStatistics: () => ({ total_heap_size: 0, used_heap_size: 0, heap_size_limit: 0, total_available_size: 0 }),
  startupSnapshot: { isBuildingSnapshot: () => false },
};

export const builtins = { v8 };
