// Attacks on memory. Each file of memory/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("memory/", import.meta.url), 8);
