// Attacks by what leaves a tool, one a file in output/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("output/", import.meta.url), 8);
