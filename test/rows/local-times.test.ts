import { describe, expect, it } from 'vitest';
import { timesFindings } from '../../src/checks/times.ts';
import { DATABASES } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const RECORD = {
  id: '1',
  date: '2026-11-22T13:17:18',
  date_gmt: '2026-11-22T12:17:18',
  updated_at: '2026-11-22T12:17:18Z',
};

describe.each(DATABASES)('a time of no known zone, on $name', (database) => {
  it('stays the text that it is', async () => {
    const stage = await ownService(database, { times: { date: 'local' } }, () => ({
      body: { data: [RECORD], next_cursor: null },
    }));
    expect((await stage.run('backfill')).status).toBe('ok');
    const rows = await stage.read((db) => db.prepare('SELECT date, date_gmt FROM report').all());
    expect(rows).toEqual([{ date: '2026-11-22T13:17:18', date_gmt: '2026-11-22 12:17:18' }]);
  });

  it('is no cursor', async () => {
    const stage = await ownService(database, { times: { updated_at: 'local' } }, () => ({}));
    await expect(stage.run('backfill')).rejects.toThrow(/resources\.report\.times: .*no known zone is no moment/);
  });
});

describe('check', () => {
  const at = Date.parse('2026-11-22T12:20:00Z');
  it('finds nothing wrong with one', () => {
    expect(timesFindings([RECORD], at, { times: {}, updated: 'updated_at' })).toMatchObject([{ status: 'fail' }]);
    expect(timesFindings([RECORD], at, { times: { date: 'local' }, updated: 'updated_at' })).toEqual([]);
  });
});
