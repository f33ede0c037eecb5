/** Numbers drawn from a seed: the same on every machine, so that a failing seed can be run again. */
export interface Random {
  /** 0 <= x < 1 */
  next(): number;
  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(values: readonly T[]): T;
  /** A number from `least` to `most`, spread evenly over the orders of magnitude. */
  spread(least: number, most: number): number;
}

/** mulberry32 */
export function randomFrom(seed: number): Random {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const whole = (least: number, most: number): number => least + Math.floor(next() * (most - least + 1));
  return {
    next,
    whole,
    spread: (least, most) => least * Math.exp(next() * Math.log(most / least)),
    chance: (probability) => next() < probability,
    pick: (values) => {
      const value = values[whole(0, values.length - 1)];
      if (value === undefined) throw new Error('nothing to pick from');
      return value;
    },
  };
}

/** A seed that differs in every run, unless `SEED` names one; whoever uses it prints it. */
export function freshSeed(): number {
  const given = process.env['SEED'];
  return given === undefined ? Math.floor(Math.random() * 1_000_000_000) : Number(given);
}
