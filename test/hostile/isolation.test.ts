// What one call leaves for the next, for another tenant, or for the host; one attack a file in isolation/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("isolation/", import.meta.url));
