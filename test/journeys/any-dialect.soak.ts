import { afterAll, describe, expect, it } from 'vitest';
import { accountOf, endOf, isExcused, requireKept } from '../support/dialect/account.ts';
import { UNSPOKEN } from '../support/dialect/spoken.ts';
import { tellDialect, type Outcome } from '../support/dialect/story.ts';
import { freshSeed } from '../support/random.ts';

/**
 * `SEED=<seed> SEEDS=1` plays one service again and prints what it does, its profile, each run and each request; `SEED`
 * and `SEEDS` choose others.
 */
const FIRST = freshSeed();
const COUNT = Number(process.env['SEEDS'] ?? 300);
const SEEDS = Array.from({ length: COUNT }, (_, index) => FIRST + index);
/** Parts of all services: those that may end without an `ok`, and those that may do so although they show everything. */
const MOST_UNSURE = 0.25;
const MOST_UNEXCUSED = 0.01;

describe('a service that speaks any dialect of the grammar', () => {
  const outcomes: Outcome[] = [];

  it.for(SEEDS)('is what the copy by its profile holds, or the run says that it may not be (SEED=%d)', async (seed) => {
    const outcome = await tellDialect(seed);
    outcomes.push(outcome);
    if (COUNT === 1) process.stdout.write(`${accountOf(outcome, true)}\n`);
    requireKept(outcome);
  });

  it('ends with an ok mostly, and else for what the service leaves open', () => {
    const unsure = outcomes.filter((outcome) => !endOf(outcome).startsWith('ok'));
    const unexcused = unsure.filter((outcome) => !isExcused(outcome));
    expect(unsure.length / outcomes.length).toBeLessThanOrEqual(MOST_UNSURE);
    expect(unexcused.length / outcomes.length).toBeLessThanOrEqual(MOST_UNEXCUSED);
  });

  afterAll(() => {
    process.stdout.write(`${reportOf(outcomes)}\n`);
  });
});

function reportOf(outcomes: readonly Outcome[]): string {
  const ends = Map.groupBy(outcomes, (outcome) => `${isExcused(outcome) ? '' : '(!) '}${endOf(outcome)}`);
  return [
    `${outcomes.length} services; not in the grammar: ${UNSPOKEN.join(', ') || 'nothing'}`,
    ...[...ends].map(([end, of]) => `  ${of.length} x ${end}: ${of.map(({ seed }) => seed).join(', ')}`),
  ].join('\n');
}
