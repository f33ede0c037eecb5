import { describe, expect, it } from 'vitest';
import { mutantsOf } from './mutants.ts';
import { examples, verdictOf } from './vectors.ts';

const EXAMPLES = examples();

/** What the sender put there as id, where it did and where a signature holds it, or the time. */
const IDS: Readonly<Record<string, string>> = {
  'standard-webhooks': 'msg_01HTEST',
  svix: 'msg_01HTEST',
  stripe: 'evt_01',
  vercel: 'evt_01',
};

describe('the vectors', () => {
  it('are 3 published and 19 generated ones', () => {
    expect(EXAMPLES).toHaveLength(22);
    expect(EXAMPLES.filter(({ name }) => name.endsWith('(published)'))).toHaveLength(3);
  });

  it.for(EXAMPLES)('verify: $name', (example) => {
    const id = example.name.includes('published') ? undefined : IDS[example.preset];
    const expected = id === undefined ? {} : { idFrom: 'sent', deliveryId: id };
    expect(verdictOf(example)).toMatchObject({ ok: true, ...expected });
  });

  it.for(EXAMPLES)('G8 F168 are refused after each of at least 25 changes: $name', (example) => {
    const mutants = mutantsOf(example);
    const accepted = mutants.filter((mutant) => verdictOf(mutant.example).ok).map(({ what }) => what);
    expect(accepted).toEqual([]);
    expect(mutants.length).toBeGreaterThanOrEqual(25);
    expect(new Set(mutants.map(({ what }) => what)).size).toBe(mutants.length);
  });
});
