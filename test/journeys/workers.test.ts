import { describe, expect, it } from 'vitest';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';
import { becomesRows, handsOver, isSeen, walksOnce } from './workers-story.ts';

/** Of which the soak has more. */
const PLAN = { workers: 1, pageSize: 10 };

describe('worker on SQLite', () => {
  it('refuses, and says what to do instead', async () => {
    const stage = await journey({ database: SQLITE });
    const { code, stderr } = await stage.command('worker');
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('SQLite') });
    expect(stderr).toContain('content-sync serve');
  });
});

describe.skipIf(POSTGRES.missing !== null)('a worker and two serves on one Postgres', { timeout: 120_000 }, () => {
  it('F133 do what the schedule asks for once, and no page twice; a delivery to either becomes a row', async () => {
    await walksOnce(PLAN, async ({ stage, serves, workers }) => {
      await becomesRows(stage, serves);
      for (const worker of workers) await isSeen(stage, worker);
    });
  });

  it('F133 one that is told to stop gives its walk to another at once, which goes on at the same page', () =>
    // A serve walks as a worker does: the short form has the two of them.
    handsOver({ ...PLAN, workers: longOrShort(1, 0) }));
});
