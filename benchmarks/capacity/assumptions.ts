// What the reader of the capacity guide can change: machines, prices and load. The rest of the model is measured.
import { parseArgs } from "node:util";

export interface Assumptions {
  /** CPU time in ms that the tool itself takes. */
  readonly toolMs: number;
  /** Standard deviation of it over its mean. */
  readonly toolCv: number;
  /** Cores and memory of an executor's machine. */
  readonly cores: number;
  readonly memoryGiB: number;
  /** Share of the cores that calls may take on average. */
  readonly utilisation: number;
  /** Price of a core for an hour. */
  readonly price: number;
  readonly natsCores: number;
  readonly postgresCores: number;
  /** Exponent of Zipf's law for the calls of tenants. */
  readonly zipf: number;
}

export const DEFAULTS: Assumptions = {
  toolMs: 20,
  toolCv: 1,
  cores: 8,
  memoryGiB: 32,
  utilisation: 0.6,
  price: 0.04,
  natsCores: 4,
  postgresCores: 16,
  zipf: 1,
};

/** The flag of each, its unit, and its largest value. */
const FLAGS: { readonly [Name in keyof Assumptions]: readonly [flag: string, what: string, max: number] } = {
  toolMs: ["tool-ms", "CPU time of the tool in ms", 60_000],
  toolCv: ["tool-cv", "its standard deviation over its mean", 10],
  cores: ["cores", "cores of a machine", 512],
  memoryGiB: ["memory-gib", "its memory in GiB", 16_384],
  utilisation: ["utilisation", "share of the cores that calls may take", 0.95],
  price: ["price", "price of a vCPU for an hour", 1_000],
  natsCores: ["nats-cores", "cores of a nats-server", 512],
  postgresCores: ["postgres-cores", "cores of a Postgres server", 512],
  zipf: ["zipf", "exponent of Zipf's law for the calls of tenants", 3],
};

/**
 * Reads assumptions from flags.
 * @throws {Error} for unknown flags and values that are no positive numbers
 */
export function readAssumptions(args: readonly string[]): Assumptions {
  const options = Object.fromEntries(Object.values(FLAGS).map(([flag]) => [flag, { type: "string" as const }]));
  const { values } = parseArgs({ args: [...args], options });
  const given = Object.entries(FLAGS).flatMap(([name, [flag, what, max]]) => {
    const text = values[flag];
    if (text === undefined) return [];
    const value = Number(text);
    if (!(value > 0 && value <= max))
      throw new Error(`--${flag} (${what}): expected a number up to ${max}, got ${text}`);
    return [[name, value]];
  });
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}

/** Each assumption as the guide lists it. */
export const toAssumptionRows = (assumptions: Assumptions): readonly (readonly string[])[] =>
  Object.entries(FLAGS).map(([name, [flag, what]]) => [
    `\`--${flag}\``,
    what,
    String(assumptions[name as keyof Assumptions]),
  ]);
