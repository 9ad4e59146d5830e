// Names of pools: groups of executors, such as those of a region or with special hardware.
import * as z from "zod";

const POOL_PATTERN = /^[a-z0-9][a-z0-9_-]{0,62}$/;
export const POOL_RULE = "1 to 63 lower-case letters, digits, _ and -";
export const PoolSchema: z.ZodType<string, string> = z
  .string()
  .regex(POOL_PATTERN, `Expected the name of a pool: ${POOL_RULE}`);
/** Pool of the executors and tenants that name none. */
export const DEFAULT_POOL = "default";
