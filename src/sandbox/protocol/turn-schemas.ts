// Schemas of turns, and of a worker's reports about them. In a worker they are part of the second script, because it takes time to build schemas.
import * as z from "zod";
import { MAX_TURN_IDS, MAX_TURNS, TURN_KINDS, type Turn, type TurnDivergence } from "./turns.ts";

/** The end of the year 9999. */
const MAX_TIME = 253_402_300_799_999;

export const TurnSchema: z.ZodType<Turn> = z
  .tuple([z.enum(TURN_KINDS), z.int().min(0).max(MAX_TIME)], z.int().min(0).max(Number.MAX_SAFE_INTEGER))
  .refine((turn) => turn.length <= MAX_TURN_IDS + 2);

/** The turns of one call. */
export const TurnsSchema: z.ZodType<Turn[]> = z.array(TurnSchema).max(MAX_TURNS);

export const DivergenceSchema: z.ZodType<TurnDivergence> = z.strictObject({
  turn: z.int().min(0).max(Number.MAX_SAFE_INTEGER),
  expected: z.string().max(256),
  actual: z.string().max(256),
});
