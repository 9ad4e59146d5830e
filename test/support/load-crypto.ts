// The class that runs the cryptography of guests, for engines that tests create without a worker process.
import { GuestCrypto } from "../../src/sandbox/worker/crypto/guest-crypto.ts";
import type { LoadCrypto } from "../../src/sandbox/worker/isolate/engine.ts";

export const loadCrypto: LoadCrypto = () => GuestCrypto;
