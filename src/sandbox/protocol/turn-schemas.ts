// Schemas with which the host parses turns, and reports of a worker about them.
import * as z from "zod";
import { createTurnSchema, MAX_TURNS, type Turn, type TurnDivergence } from "./turns.ts";

export const TurnSchema: z.ZodType<Turn> = createTurnSchema();

/** The turns of one call. */
export const TurnsSchema: z.ZodType<Turn[]> = z.array(TurnSchema).max(MAX_TURNS);

export const DivergenceSchema: z.ZodType<TurnDivergence> = z.strictObject({
  turn: z.int().min(0).max(Number.MAX_SAFE_INTEGER),
  expected: z.string().max(256),
  actual: z.string().max(256),
});
