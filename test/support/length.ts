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
