// Attacks through granted capabilities. Each file of capabilities/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("capabilities/", import.meta.url));
