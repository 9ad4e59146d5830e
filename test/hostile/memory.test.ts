// Attacks on memory, one a file in memory/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("memory/", import.meta.url), 8);
