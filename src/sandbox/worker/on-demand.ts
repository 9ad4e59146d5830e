// Entry point of the worker's second script: cryptography, compression, and the schema of recorded turns, which few calls need. To load them
// takes a fifth of the CPU time of a worker's start, so a worker loads this script on its first use, or once no call runs.
export { TurnsSchema } from "../protocol/turn-schemas.ts";
export { GuestCrypto } from "./crypto/guest-crypto.ts";
