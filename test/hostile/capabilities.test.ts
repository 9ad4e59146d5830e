// Attacks through what a tool is granted, one a file in capabilities/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("capabilities/", import.meta.url));
