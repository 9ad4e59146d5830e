// Options of the functions that derive keys: shared by the module and the part of it that is loaded when a guest uses it.

export interface Pbkdf2Options {
  readonly password: Uint8Array;
  readonly salt: Uint8Array;
  readonly iterations: number;
  readonly length: number;
  readonly digest: string;
}

export interface ScryptOptions {
  readonly password: Uint8Array;
  readonly salt: Uint8Array;
  readonly length: number;
  readonly N: number;
  readonly r: number;
  readonly p: number;
}
