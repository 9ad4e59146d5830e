// Attacks on time. Each file of cpu/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("cpu/", import.meta.url), 8);
