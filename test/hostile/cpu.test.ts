// Attacks on time, one a file in cpu/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("cpu/", import.meta.url), 8);
