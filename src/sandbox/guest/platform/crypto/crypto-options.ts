// Options of key derivation, shared by crypto-native.ts, node-argon2.ts and the lazily loaded crypto-derive.ts.

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

export interface Argon2Options {
  readonly algorithm: "argon2d" | "argon2i" | "argon2id";
  readonly message: Uint8Array;
  readonly nonce: Uint8Array;
  readonly secret: Uint8Array;
  readonly associatedData: Uint8Array;
  readonly parallelism: number;
  readonly tagLength: number;
  /** KiB */
  readonly memory: number;
  readonly passes: number;
}
