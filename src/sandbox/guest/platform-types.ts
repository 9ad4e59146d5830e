// What structuredClone needs of others, wherever its chunk is: what chunks' classes do in it, and V8's constructors as they were at boot.
import { append } from "./primordials.ts";

/** What a chunk's class does when one of its objects is cloned or transferred. Chunks add theirs: the prelude knows none of them. */
export interface PlatformType {
  owns(value: unknown): boolean;
  /** Undefined for what can only be transferred, or neither. */
  readonly clone?: (value: object) => object;
  /** The object that will be in its place, and what makes it so, which is called once all has been cloned. */
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

/** Not at module scope: a start-up snapshot may lack some of them. */
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
