import { describe, expect, it } from 'vitest';
import { lossyRounds, MISSING } from './lost-answers.ts';

/** Parts of a round; the soak loses every answer once. */
const PLACES = [0.3, 0.5, 0.7, 0.9];

describe.skipIf(MISSING !== null)('pages, deletes, releases and run records on Postgres', () => {
  it('are written once where an answer of the server is lost', async () => {
    const { round } = await lossyRounds();
    const all = await round(Infinity);
    expect(all).toBeGreaterThan(50);
    for (const place of PLACES) await round(Math.round(place * all));
  });
});
