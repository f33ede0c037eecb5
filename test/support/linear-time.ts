/** Two small ones, at which what is exponential shows; and the one at which what is quadratic does. */
const LARGEST = 16_384;
const SIZES = [32, 1_024, LARGEST] as const;
/** Twice the input may take so much longer. */
const MOST_PER_DOUBLING = 2.5;
const DOUBLINGS = 2;
/** Nothing quadratic does the last size in so little time, and what does is quick enough. */
const QUICK_US = 2_000;
/** What takes so long at a small size grows like nothing that is to be measured at a larger one. */
const ENDLESS_US = 200_000;
const MORE_ROUNDS = 30;

/** Something that is done to a text that a stranger wrote. */
export interface TextWork {
  name: string;
  work: (text: string) => unknown;
  /** What stands before and after the stranger's repetitions, so that they are read as what the work is about. */
  frames?: readonly (readonly [string, string])[];
}

/** What may be thrown at a text that is none; whatever else is thrown is thrown on. */
export function attempt(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

export interface Growth {
  size: number;
  /** Per doubling. */
  factor: number;
}

/**
 * How much longer the work takes each time its input doubles, where that is too much; null where it is not. Told by
 * CPU time, and by the least of several rounds: whatever else the machine does only adds to a round.
 */
export function tooMuchGrowth<T>(work: (input: T) => unknown, makeInput: (size: number) => T): Growth | null {
  let us = 0;
  for (const size of SIZES) {
    const input = makeInput(size);
    us = timeOf(work, input);
    if (size < LARGEST && Math.min(us, timeOf(work, input)) > ENDLESS_US) return { size, factor: Infinity };
  }
  return us <= QUICK_US ? null : measuredGrowth(work, makeInput);
}

function measuredGrowth<T>(work: (input: T) => unknown, makeInput: (size: number) => T): Growth | null {
  const [smaller, larger] = [makeInput(LARGEST / 2 ** DOUBLINGS), makeInput(LARGEST)];
  let [before, now] = [Infinity, Infinity];
  let factor = Infinity;
  for (let round = 0; round < MORE_ROUNDS && factor > MOST_PER_DOUBLING; round += 1) {
    now = Math.min(now, timeOf(work, larger));
    if (now <= QUICK_US) return null;
    before = Math.min(before, timeOf(work, smaller));
    factor = (now / Math.max(before, 1)) ** (1 / DOUBLINGS);
    if (now > ENDLESS_US && round > 1) break;
  }
  return factor > MOST_PER_DOUBLING ? { size: LARGEST, factor: Math.round(factor * 100) / 100 } : null;
}

/**
 * Microseconds of CPU. Where the kernel counts in larger steps it may say nothing, or a whole step: then the clock on the
 * wall is nearer.
 */
function timeOf<T>(work: (input: T) => unknown, input: T): number {
  const [begun, used] = [performance.now(), process.cpuUsage()];
  work(input);
  const { user, system } = process.cpuUsage(used);
  const passed = (performance.now() - begun) * 1_000;
  return user + system === 0 ? passed : Math.min(passed, user + system);
}
