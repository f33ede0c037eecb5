import { describe, expect, it } from 'vitest';
import { beginRun, endRun, NO_COUNTERS } from '../../../src/database/state/runs.ts';
import { countOpenRejects, resolveUnseenRejects } from '../../../src/database/state/stored-rows.ts';
import { DATABASES, warehouseOn } from '../../support/databases.ts';
import { loading } from '../../support/page-loading.ts';

const AT = Date.parse('2026-11-20T08:00:00Z');

function run(run_id: string, resource = 'content') {
  return { run_id, resource, command: 'sync', mode: 'full' } as const;
}

/** So many seconds after `AT`. */
function at(seconds: number): string {
  return `2026-11-20 08:00:0${seconds}.000`;
}

describe.for(DATABASES)('runs on $name', (database) => {
  it('one that was killed is closed as interrupted when the next of its resource begins, and no other is touched', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { own } = warehouse;
    await warehouse.apply([...beginRun(own, run('r1'), AT), ...beginRun(own, run('r1', 'images'), AT)]);
    await warehouse.apply([
      ...endRun(
        own,
        run('r1', 'images'),
        { status: 'ok', figures: { ...NO_COUNTERS, pages: 3 }, error: null, warnings: [], outcomes: {} },
        AT + 1_000,
      ),
    ]);
    await warehouse.apply([
      ...beginRun(own, run('r2'), AT + 5_000),
      ...beginRun(own, run('r2', 'analytics'), AT + 5_000),
    ]);
    const found = await rows('SELECT run_id, resource, status, finished_at, error_code FROM _sync_runs ORDER BY 1, 2');
    expect(found.map((row) => Object.values(row).join())).toEqual([
      `r1,content,interrupted,${at(5)},killed`,
      `r1,images,ok,${at(1)},`,
      'r2,analytics,running,,',
      'r2,content,running,,',
    ]);
  });
});

describe.for(DATABASES)('rejects on $name', (database) => {
  const REJECTS = 'SELECT reason, record_id, body, first_seen, last_seen, resolved_at FROM _sync_rejects ORDER BY body';
  it('F105 keep the source as it came, once, and are closed when the record comes in well', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse, { profile: { contract: 'discard_row', updated: null } });
    await load(['{"id":"0","n":1}'], AT);
    const outcome = await load(['{"id":"1","n":1}', '{"id":"2", "n":"two"}', '{"n":3}'], AT + 1_000);
    expect(outcome).toMatchObject({ records: 3, inserted: 1, rejected: 2, unchanged: 0 });
    await load(['{"id":"2", "n":"two"}', '{"n":3}'], AT + 2_000);
    expect(await rows(REJECTS)).toEqual([
      {
        reason: 'contract',
        record_id: '2',
        body: '{"id":"2", "n":"two"}',
        first_seen: at(1),
        last_seen: at(2),
        resolved_at: null,
      },
      {
        reason: 'id_missing',
        record_id: null,
        body: '{"n":3}',
        first_seen: at(1),
        last_seen: at(2),
        resolved_at: null,
      },
    ]);
    expect(await countOpenRejects(warehouse.own, 'content')).toBe(2);

    await load(['{"id":"2","n":2}'], AT + 3_000);
    expect(await rows(REJECTS)).toMatchObject([{ resolved_at: at(3) }, { resolved_at: null }]);
    expect(await rows('SELECT id, n FROM content ORDER BY id')).toEqual([
      { id: '0', n: 1n },
      { id: '1', n: 1n },
      { id: '2', n: 2n },
    ]);
  });

  it('a whole walk closes those that it has not met, of its resource only', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const [content, images] = [await loading(warehouse), await loading(warehouse, { resource: 'images' })];
    await content.load(['{"a":1}'], AT);
    await images.load(['{"a":2}'], AT);
    await content.load(['{"a":3}'], AT + 2_000);
    await warehouse.apply([resolveUnseenRejects(warehouse.own, 'content', at(1), at(3))]);
    expect(await rows('SELECT body, resolved_at FROM _sync_rejects ORDER BY body')).toEqual([
      { body: '{"a":1}', resolved_at: at(3) },
      { body: '{"a":2}', resolved_at: null },
      { body: '{"a":3}', resolved_at: null },
    ]);
  });
});
