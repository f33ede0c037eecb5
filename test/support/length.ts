import { freshSeed } from './random.ts';

/** True in the long form of a test, as `npm run test:soak` runs it; `npm test` runs the short one. */
export const IS_LONG = process.env['TEST_LENGTH'] === 'long';

/** All of them in the long form, and in the short one every `step`th, beginning at `first`. */
export function sampled<T>(all: readonly T[], step: number, first = 0): readonly T[] {
  return IS_LONG ? all : all.filter((_, at) => at % step === first % step);
}

/** The one in the long form of a test, the other in its short form. */
export function longOrShort<T>(long: T, short: T): T {
  return IS_LONG ? long : short;
}

/**
 * The seeds of a random test: in its short form these, in the long one `SEEDS` or so many, from `SEED` or any number on.
 * `TEST_LENGTH=long SEED=<seed> SEEDS=1` plays one again.
 */
export function seedsOf(short: readonly number[], many: number): readonly number[] {
  const first = freshSeed();
  return IS_LONG ? Array.from({ length: Number(process.env['SEEDS'] ?? many) }, (_, at) => first + at) : short;
}

/** True where one seed is played again: then all of its story is told. */
export const IS_REPLAY = process.env['SEEDS'] === '1';
