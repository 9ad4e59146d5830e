// Attacks by a compromised worker process. Each file of protocol/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("protocol/", import.meta.url), 8);
