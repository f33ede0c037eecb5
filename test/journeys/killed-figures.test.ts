import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { USUAL } from '../support/databases.ts';
import { ownService, type OwnService } from '../support/own-service.ts';

const PAGE = 10;

/** Records by number; every fifth has no usable id. */
function records(from: number): object[] {
  return Array.from({ length: PAGE }, (_, at) => {
    const number = from + at;
    return { id: number % 5 === 4 ? null : `r${number}`, number };
  });
}

async function runs(stage: OwnService): Promise<unknown[]> {
  const figures = 'pages, records, inserted, updated, unchanged, rejected, requests >= pages AS requests';
  return stage.all(
    `SELECT status, error_code AS code, ${figures}, bytes > 0 AS bytes FROM _sync_runs ORDER BY started_at`,
  );
}

/** Until so many pages of the walk under way are stored. */
async function stored(stage: OwnService, pages: number): Promise<void> {
  const count = 'SELECT walk_pages FROM _sync_checkpoints';
  const isThere = "SELECT count(*) FROM sqlite_schema WHERE name = '_sync_checkpoints'";
  for (;;) {
    const at = await stage.read((db) =>
      db.prepare(isThere).pluck().get() === 0 ? 0 : db.prepare(count).pluck().get(),
    );
    if (at === pages) return;
    await delay(20);
  }
}

/** Of the pages, in order: such as tell nothing of a number. */
const TOKENS = ['', 'second', 'third', 'fourth', 'fifth'];

describe.for([USUAL])('a run that is killed on $name', (database) => {
  it('leaves the figures of the pages that it has stored, and the next run those of its own', async () => {
    let stuckAt = 3;
    const stage = await ownService(database, { updated: null }, (url) => {
      const page = TOKENS.indexOf(url.searchParams.get('cursor') ?? '');
      if (page === stuckAt) stage.service.delay = 60_000;
      return { body: { data: records(page * PAGE), next_cursor: TOKENS[page + 1] ?? null } };
    });
    const killed = stage.start('backfill');
    await stored(stage, 3);
    killed.kill('SIGKILL');
    await killed.ended;
    const part = { pages: 3, requests: 1, records: 30, inserted: 24, updated: 0, unchanged: 0, rejected: 6, bytes: 1 };
    expect(await runs(stage)).toEqual([{ status: 'running', code: null, ...part }]);

    stage.service.delay = 0;
    stuckAt = -1;
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ pages: 2, records: 20, inserted: 16 });
    expect(await runs(stage)).toEqual([
      { status: 'interrupted', code: 'killed', ...part },
      { ...part, status: 'partial', code: null, pages: 2, records: 20, inserted: 16, rejected: 4 },
    ]);
  });
});
