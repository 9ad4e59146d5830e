// Random numbers with a seed, so that a simulation gives the same figures each time.

/** A source of numbers in [0, 1): sfc32. */
export type Random = () => number;

export function createRandom(seed: number): Random {
  let [a, b, c, counter] = [0x9e3779b9, 0x243f6a88, seed | 0, 1];
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    c |= 0;
    return (sum >>> 0) / 2 ** 32;
  };
  // The first numbers depend on few bits of the seed.
  for (let n = 0; n < 16; n += 1) next();
  return next;
}

/** Returns an exponentially distributed time with this mean. */
export const exponential = (random: Random, mean: number): number => -mean * Math.log(1 - random());

/**
 * Returns a log-normally distributed value.
 * @param cv its standard deviation over its mean; with 0, the mean itself
 */
export function logNormal(random: Random, mean: number, cv: number): number {
  if (cv === 0) return mean;
  const variance = Math.log(1 + cv * cv);
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return mean * Math.exp(Math.sqrt(variance) * normal - variance / 2);
}

/** The share of each tenant in the calls: the nth has 1 / n^exponent of the first one's. */
export function zipfShares(count: number, exponent: number): Float64Array {
  const shares = new Float64Array(count);
  let sum = 0;
  for (let n = 0; n < count; n += 1) {
    shares[n] = 1 / (n + 1) ** exponent;
    sum += shares[n] as number;
  }
  for (let n = 0; n < count; n += 1) shares[n] = (shares[n] as number) / sum;
  return shares;
}

/** Returns a function that chooses an index by its share. */
export function createChooser(shares: Float64Array): (random: Random) => number {
  const sums = new Float64Array(shares.length);
  let sum = 0;
  for (let n = 0; n < shares.length; n += 1) {
    sum += shares[n] as number;
    sums[n] = sum;
  }
  return (random) => {
    const target = random() * sum;
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) > target) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}
