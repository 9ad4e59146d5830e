// A worker process that is taken over, one attack a file in protocol/.
import { registerAttacks } from "./support.ts";

await registerAttacks(new URL("protocol/", import.meta.url), 8);
