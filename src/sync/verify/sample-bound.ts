/** A share of the units that differ is at most that of the bound, with this probability. */
export const CONFIDENCE = 0.95;

const STEPS = 60;

/**
 * The largest share of units that may differ, if `differ` of `drawn` do: one-sided after Clopper and Pearson, exact
 * for each number. Without any it is near three by the number that was drawn. `units`: how many there are in all; with
 * all of them drawn, nothing is left to guess.
 */
export function upperBound(drawn: number, differ: number, units: number): number {
  if (drawn >= units) return units === 0 ? 0 : differ / units;
  if (differ >= drawn) return 1;
  let [low, high] = [differ / drawn, 1];
  for (let step = 0; step < STEPS; step += 1) {
    const middle = (low + high) / 2;
    if (atMost(drawn, differ, middle) > 1 - CONFIDENCE) low = middle;
    else high = middle;
  }
  return high;
}

/** The probability of `differ` or fewer among `drawn`, if this share of all differs. */
function atMost(drawn: number, differ: number, share: number): number {
  let logarithm = drawn * Math.log1p(-share);
  let sum = Math.exp(logarithm);
  for (let count = 1; count <= differ; count += 1) {
    logarithm += Math.log((drawn - count + 1) / count) + Math.log(share) - Math.log1p(-share);
    sum += Math.exp(logarithm);
  }
  return sum;
}

/** Numbers from 0 to below 1, the same ones for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Chooses `count` of what comes, each as probable as the others; memory is that of the chosen. */
export class Drawing<T> {
  readonly chosen: T[] = [];
  seen = 0;
  readonly #count: number;
  readonly #random: () => number;

  constructor(count: number, random: () => number) {
    this.#count = count;
    this.#random = random;
  }

  offer(unit: T): void {
    this.seen += 1;
    if (this.chosen.length < this.#count) {
      this.chosen.push(unit);
      return;
    }
    const at = Math.floor(this.#random() * this.seen);
    if (at < this.#count) this.chosen[at] = unit;
  }
}
