import { describe, expect, it } from 'vitest';
import type { Behaviour } from '../../support/small-service.ts';
import { USUAL, type TestDatabase } from '../../support/databases.ts';
import { clockShowing } from '../../support/hurried-clock.ts';
import { smallStage, type SmallStage } from '../../support/small-stage.ts';

/** The second key may see only records whose id does not begin with `private`. */
const RIGHTS: Behaviour = {
  sees: (authorization, { id }) => authorization?.endsWith('first') === true || !id.startsWith('private'),
};

async function copied(database: TestDatabase, fields: object = {}, hidden = 3): Promise<SmallStage> {
  const stage = await smallStage(RIGHTS, { ...fields }, { database, source: keyed('first') });
  for (let index = 0; index < 97; index += 1) {
    stage.service.now += 600_000;
    stage.service.put(`open${index}`);
  }
  for (let index = 0; index < hidden; index += 1) stage.service.put(`private${index}`);
  expect(await stage.walk('backfill')).toMatchObject({ status: 'ok' });
  return stage;
}

function keyed(key: string) {
  return { auth: { type: 'api_key', key } };
}

const NOTHING = {
  command: 'sync',
  restart: false,
  signal: new AbortController().signal,
  watcher: { started: () => undefined, page: () => undefined, ended: () => undefined },
} as const;

function codes({ warnings }: { warnings?: readonly { code: string }[] }): string[] {
  return (warnings ?? []).map(({ code }) => code).toSorted();
}

describe.for([USUAL])('another credential, on $name', (database) => {
  it('is reported once, in the next sync, and what it does not list is held however little it is', async () => {
    for (const item of ['/content/{id}', null]) {
      const stage = await copied(database, { item });
      stage.setSource(keyed('second'));
      stage.service.now += 3_600_000;
      const report = await stage.walk('sync');
      expect(report).toMatchObject({ status: 'partial', mode: 'full', held: 3, deleted: 0 });
      expect(codes(report)).toEqual(['credential_changed', 'deletes_held']);
      const told = report.warnings?.find(({ code }) => code === 'credential_changed')?.message;
      expect(told).toMatch(/3 rows that were copied before are not listed under it/);
      // The next ones find nothing new to tell, and delete nothing either.
      for (const command of ['sync', 'backfill'] as const) {
        const next = await stage.walk(command);
        expect([command, codes(next), next.deleted]).toEqual([command, ['deletes_held'], 0]);
      }
      expect(await stage.unlike()).toEqual([]);
    }
  });

  it('that lists all as well is not reported, and nothing is held', async () => {
    const stage = await copied(database, {}, 0);
    stage.setSource(keyed('second'));
    const report = await stage.walk('sync');
    expect(report).toMatchObject({ status: 'ok', mode: 'full', held: 0 });
    expect(codes(report)).toEqual([]);
    expect(await stage.walk('sync')).toMatchObject({ status: 'ok', mode: 'incremental', requests: 1 });
    expect(codes(await stage.walk('backfill'))).toEqual([]);
  });

  it('is reported by the run after a kill, whose walk had ended before what it did not list was looked at', async () => {
    const stage = await copied(database);
    stage.setSource(keyed('second'));
    stage.service.now += 1_000;
    const app = await stage.open(clockShowing(() => stage.service.now));
    const { warehouse } = app;
    const apply = warehouse.apply.bind(warehouse);
    warehouse.apply = (statements, lease) =>
      statements.some(({ sql }) => sql.includes('_sync_suspects'))
        ? Promise.reject(new Error('killed'))
        : apply(statements, lease);
    const { resources } = await app.sync({ ...NOTHING, resources: ['content'] });
    expect(resources[0]).toMatchObject({ status: 'failed', error: { message: 'killed' } });
    await app.close();
    const report = await stage.walk('sync');
    expect(report).toMatchObject({ status: 'partial', held: 3, deleted: 0 });
    expect(codes(report)).toEqual(['credential_changed', 'deletes_held']);
    expect(codes(await stage.walk('sync'))).toEqual(['deletes_held']);
  });
});
