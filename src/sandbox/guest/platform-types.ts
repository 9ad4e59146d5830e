// Registry for structuredClone: how classes of platform modules are cloned and transferred, and V8's constructors, captured at boot.
import { append } from "./primordials.ts";

/** How objects of a platform module's class are cloned and transferred. Each platform module registers its own classes. */
export interface PlatformType {
  owns(value: unknown): boolean;
  /** Undefined if the object cannot be cloned. */
  readonly clone?: (value: object) => object;
  /** Returns the object that replaces the transferred one, and a function that completes the transfer after all values are cloned. */
  readonly transfer?: (value: object) => { readonly target: object; readonly commit: () => void };
}

const platformTypes: PlatformType[] = [];

export function addPlatformType(type: PlatformType): void {
  append(platformTypes, type);
}

export function platformTypeOf(value: object): PlatformType | undefined {
  for (let index = 0; index < platformTypes.length; index += 1) {
    const type = platformTypes[index] as PlatformType;
    if (type.owns(value)) return type;
  }
  return undefined;
}

type Classes<Class> = { readonly [name: string]: Class | undefined };
type ViewConstructor = new (buffer: ArrayBuffer, byteOffset: number, length: number) => object;

// Called at boot and not at module scope, because a startup snapshot may lack some of these constructors.

const captureViews = (): Classes<ViewConstructor> =>
  ({
    __proto__: null,
    Int8Array,
    Uint8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float16Array: (globalThis as { Float16Array?: unknown }).Float16Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  }) as unknown as Classes<ViewConstructor>;

const captureErrors = (): Classes<ErrorConstructor> =>
  ({
    __proto__: null,
    EvalError,
    RangeError,
    ReferenceError,
    SyntaxError,
    TypeError,
    URIError,
  }) as unknown as Classes<ErrorConstructor>;

let views: Classes<ViewConstructor> | undefined;
let errors: Classes<ErrorConstructor> | undefined;

export const viewConstructor = (name: string): ViewConstructor | undefined => views?.[name];
export const errorConstructor = (name: string): ErrorConstructor | undefined => errors?.[name];

export function capturePlatformTypes(): void {
  views = captureViews();
  errors = captureErrors();
}
