import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { lastScanStart, readRunDetails, readRuns, type RunRecord } from '../../../src/database/state/runs.ts';
import { DATABASES, type TestDatabase, warehouseOn } from '../../support/databases.ts';
import { ownService } from '../../support/own-service.ts';
import { smallStage, type SmallStage } from '../../support/small-stage.ts';

/** The history of the copy, the newest first. */
async function history(database: TestDatabase, stage: SmallStage): Promise<RunRecord[]> {
  const { warehouse } = await warehouseOn(database, stage.address);
  const runs = await readRuns(warehouse.own, { limit: 50 });
  await warehouse.close();
  return runs;
}

const SHORT = ({ status, mode }: RunRecord): string => `${status} ${mode}`;

describe.for(DATABASES)('the history of runs on $name', (database) => {
  it('keeps the last of the runs that changed nothing, and hides no change, failure or warning by it', async () => {
    const stage = await smallStage({}, {}, { database });
    for (let id = 1; id <= 12; id += 1) stage.service.put(String(id));
    await stage.walk('backfill');
    await stage.walk();
    await stage.walk();
    const { requests } = await stage.walk();
    const [quiet] = await history(database, stage);
    expect(quiet).toMatchObject({ status: 'ok', mode: 'incremental', requests, outcomes: { ok: requests } });

    stage.service.put('3', { title: 'another title' });
    for (let run = 0; run < 3; run += 1) await stage.walk();
    expect((await history(database, stage)).map(SHORT)).toEqual([
      'ok incremental',
      'ok incremental',
      'ok incremental',
      'ok full',
    ]);
    const { warehouse, rows } = await warehouseOn(database, stage.address);
    const [last, changed] = await readRuns(warehouse.own, { limit: 3 });
    expect(changed).toMatchObject({ updated: 1 });
    const [checkpoint] = await rows('SELECT last_success_at AS at FROM _sync_checkpoints');
    const began = await lastScanStart(warehouse.own, 'content', String(checkpoint?.['at']));
    expect(began).toBe(new Date(last?.started_at ?? 0).toISOString().replace('T', ' ').replace('Z', ''));
    const all = await readRuns(warehouse.own, { resource: ['content'], since: changed?.started_at, limit: 9 });
    expect(all.map(({ run_id }) => run_id)).toEqual([last?.run_id, changed?.run_id]);
    const backfill = (await readRuns(warehouse.own, { limit: 9 })).find(({ mode }) => mode === 'full');
    const [details] = await readRunDetails(warehouse.own, backfill?.run_id ?? '');
    expect(details?.schema_changes.length).toBeGreaterThan(1);
    expect(details?.schema_changes[0]).toMatchObject({ table: 'content', from: null });
    expect(await readRunDetails(warehouse.own, 'none')).toEqual([]);
  });

  it('tells of a failed run what the service said, and keeps runs by their age but for the last ones', async () => {
    let status = 200;
    const secret = 'a-secret-of-the-config';
    const headers = { 'x-request-id': `req-77 ${secret}` };
    const stage = await ownService(
      database,
      { updated: null },
      () => ({ status, headers, body: { data: [{ id: 'a', n: 1 }], next_cursor: null } }),
      { hash_key: secret },
    );
    const told = async (): Promise<string[]> => {
      const { warehouse } = await warehouseOn(database, stage.address);
      const runs = await readRuns(warehouse.own, { failed: true, limit: 9 });
      const all = await readRuns(warehouse.own, { limit: 9 });
      await warehouse.close();
      failed = runs[0];
      return all.map(SHORT);
    };
    let failed: RunRecord | undefined;
    await stage.run('backfill');
    for (const code of [404, 200, 404]) {
      status = code;
      await stage.run('backfill');
    }
    expect(await told()).toEqual(['failed full', 'ok full', 'failed full', 'ok full']);
    expect(failed?.error).toMatchObject({ code: 'not_found', request_id: 'req-77 ***' });
    expect(failed?.error?.hint).toMatch(/./);
    expect(failed?.outcomes).toEqual({ stop: 1 });

    // The walk that came to its end last stays with the run that it may have begun in, although all are too old.
    await stage.write("UPDATE _sync_runs SET finished_at = '2026-01-01 00:00:00.000'");
    await stage.run('backfill');
    expect(await told()).toEqual(['failed full', 'ok full', 'failed full']);
    writeFileSync(stage.config, readFileSync(stage.config, 'utf8').replace('{', '{ "keep_runs": "0d",'));
    status = 200;
    await stage.run('backfill');
    await stage.write("UPDATE _sync_runs SET finished_at = '2026-01-01 00:00:00.000'");
    status = 404;
    await stage.run('backfill');
    expect(await told()).toEqual(['failed full', 'ok full', 'failed full']);
  });
});
