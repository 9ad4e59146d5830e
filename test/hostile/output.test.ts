// Attacks by the output of a tool. Each file of output/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("output/", import.meta.url), 8);
