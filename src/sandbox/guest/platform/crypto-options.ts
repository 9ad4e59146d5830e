// Options of key derivation, shared by crypto-native.ts and the lazily loaded crypto-derive.ts.

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
