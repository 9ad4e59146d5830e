// State that one call leaves for the next, for another tenant, or for the host. Each file of isolation/ contains one attack.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("isolation/", import.meta.url));
