// Jobs that Glovebox, raw isolated-vm and the peers run: the source and the input of one function, the same for each.

/** A function expression `(input, host) => output`; `host.ask(n)` asks the host and promises n + 1. */
export interface Job {
  readonly source: string;
  readonly input: unknown;
}

export const ADD: Job = { source: "async ({ a, b }) => ({ sum: a + b })", input: { a: 1, b: 2 } };

/** Takes its argument in, and gives it back. */
export const ECHO_SOURCE = "async (input) => input";

export const SEQUENTIAL: Job = {
  source: `async ({ count }, host) => {
    let sum = 0;
    for (let n = 0; n < count; n += 1) sum += await host.ask(n);
    return { sum };
  }`,
  input: { count: 100 },
};

export const PARALLEL: Job = {
  source: `async ({ count }, host) => {
    const answers = await Promise.all(Array.from({ length: count }, (_, n) => host.ask(n)));
    return { sum: answers.reduce((sum, answer) => sum + answer, 0) };
  }`,
  input: { count: 100 },
};

/** The sun and four planets, in the plain step of the textbook: floating point, and nothing that allocates. */
const NBODY_SOURCE = `async ({ steps }) => {
  const bodies = [
    { x: 0, y: 0, z: 0, vx: 0, vy: 0, vz: 0, mass: 39.478 },
    { x: 4.84, y: -1.16, z: -0.1, vx: 0.606, vy: 2.812, vz: -0.025, mass: 0.0377 },
    { x: 8.34, y: 4.12, z: -0.4, vx: -1.011, vy: 1.825, vz: 0.008, mass: 0.0113 },
    { x: 12.89, y: -15.11, z: -0.22, vx: 1.083, vy: 0.869, vz: -0.011, mass: 0.0017 },
    { x: 15.38, y: -25.92, z: 0.18, vx: 0.979, vy: 0.594, vz: -0.035, mass: 0.002 },
  ];
  const dt = 0.01;
  for (let step = 0; step < steps; step += 1) {
    for (let i = 0; i < bodies.length; i += 1) {
      const one = bodies[i];
      for (let j = i + 1; j < bodies.length; j += 1) {
        const other = bodies[j];
        const dx = one.x - other.x;
        const dy = one.y - other.y;
        const dz = one.z - other.z;
        const squared = dx * dx + dy * dy + dz * dz;
        const pull = dt / (squared * Math.sqrt(squared));
        one.vx -= dx * other.mass * pull;
        one.vy -= dy * other.mass * pull;
        one.vz -= dz * other.mass * pull;
        other.vx += dx * one.mass * pull;
        other.vy += dy * one.mass * pull;
        other.vz += dz * one.mass * pull;
      }
    }
    for (let i = 0; i < bodies.length; i += 1) {
      const body = bodies[i];
      body.x += dt * body.vx;
      body.y += dt * body.vy;
      body.z += dt * body.vz;
    }
  }
  return { x: bodies[0].x };
}`;

export const nbody = (steps: number): Job => ({ source: NBODY_SOURCE, input: { steps } });

/** The answer of `host.ask` in every sandbox. */
export const answer = (n: number): number => n + 1;

/** A job as a tool's source. */
export const toToolSource = ({ source }: Pick<Job, "source">): string => `export default ${source};`;
