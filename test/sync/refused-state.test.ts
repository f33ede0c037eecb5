import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { USUAL } from '../support/databases.ts';
import { dumpCopy } from '../support/dump-copy.ts';
import { journey, type Journey } from '../support/journey.ts';
import { sampled } from '../support/length.ts';

const SMALL = { generate: { content: 250, images: 20, analytics: 20 } };

function resourceProfile(fields: Record<string, unknown>): Record<string, unknown> {
  return { resources: { content: fields } };
}

/** A copy that is complete, and a service that knows what is asked of it from now on. */
async function copied(): Promise<Journey> {
  const stage = await journey({ sandbox: SMALL });
  expect((await stage.run('backfill')).status).toBe('ok');
  stage.sandbox.requests.clear();
  return stage;
}

const DAMAGES = [
  ['format', 2, 'warehouse_newer'],
  ['fingerprint', '', 'warehouse_corrupt'],
] as const;

/** Values that only SQLite lets into such columns. */
const UNTYPED = [
  ['format', 'one', 'warehouse_corrupt'],
  ['fingerprint', Buffer.from('cut sh'), 'warehouse_corrupt'],
  ['last_success_at', '2026-11-20 12:3', 'warehouse_corrupt'],
  ['last_full_at', 'yesterday', 'warehouse_corrupt'],
  ['due_at', 1_763_640_000, 'warehouse_corrupt'],
  ['cursor', Buffer.alloc(9), 'warehouse_corrupt'],
] as const;

/** The row of `content` set to what no run has written. */
async function damage(stage: Journey, column: string, value: string | number | Buffer): Promise<void> {
  await stage.write(`UPDATE _sync_checkpoints SET ${column} = ? WHERE resource = 'content'`, value);
}

describe('a checkpoint that cannot be trusted', () => {
  it('F070 is refused before any request, however it is damaged, and can be started over', async () => {
    const stage = await copied();
    const whole = await stage.read((db) =>
      db.prepare<[], object>("SELECT * FROM _sync_checkpoints WHERE resource = 'content'").get(),
    );
    const before = await stage.read(dumpCopy);
    for (const [column, value, code] of [...DAMAGES, ...(USUAL.name === 'sqlite' ? sampled(UNTYPED, 3) : [])]) {
      // Past the column's own affinity: whatever stands there, it is not what we wrote.
      await damage(stage, column, value);
      for (const command of ['sync', 'backfill'] as const) {
        await expect(stage.run(command)).rejects.toMatchObject({
          name: 'ConfigError',
          code,
          hint: expect.stringMatching(/--restart|run that version/),
        });
      }
      const sets = Object.keys(whole ?? {}).map((name) => `${name} = ?`);
      const values = Object.values(whole ?? {});
      await stage.write(`UPDATE _sync_checkpoints SET ${sets.join(',')} WHERE resource = 'content'`, ...values);
    }
    expect(stage.sandbox.requests.total).toBe(0);
    expect(await stage.read(dumpCopy)).toEqual(before);

    await damage(stage, 'fingerprint', '');
    expect((await stage.run('backfill', { restart: true, resources: ['content'] })).status).toBe('ok');
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });

  it('F070 a cursor that is cut short costs a full walk and loses nothing', async () => {
    const stage = await copied();
    await damage(stage, 'cursor', '2026-11-');
    const { status, resources } = await stage.run('sync');
    expect([status, resources[0]?.mode, resources[1]?.mode]).toEqual(['ok', 'full', 'incremental']);
  });

  it('F119 a warehouse of a newer version is refused by the command line with exit 2', async () => {
    const stage = await copied();
    await stage.write("INSERT INTO _sync_migrations VALUES ('900-from-the-future', '2030-01-01')");
    const { code, stderr } = await stage.command('backfill');
    expect(code).toBe(2);
    expect(stderr).toContain('900-from-the-future');
    expect(stage.sandbox.requests.total).toBe(0);
  });
});

describe('a profile that has changed', () => {
  it('F071 another path is refused before any request, and --restart rebuilds the table', async () => {
    const stage = await copied();
    const before = await stage.read(dumpCopy);
    stage.setProfile(resourceProfile({ path: '/images' }));
    await expect(stage.run('sync')).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'profile_changed',
      hint: expect.stringContaining('backfill content --restart'),
    });
    expect(stage.sandbox.requests.total).toBe(0);
    expect(await stage.read(dumpCopy)).toEqual(before);

    expect((await stage.run('backfill', { restart: true, resources: ['content'] })).status).toBe('ok');
    const rebuilt = await stage.read((db) => db.prepare('SELECT count(*) FROM content').pluck().get());
    expect(rebuilt).toBe(20);
    expect((await stage.run('sync')).status).toBe('ok');
  });

  it('F071 another page size or style begins an unfinished walk again, and refuses nothing', async () => {
    const stage = await journey({ sandbox: SMALL, profile: resourceProfile({ page: { size: 20 } }) });
    const stop = new AbortController();
    const watcher = { page: () => stop.abort(new Error('enough')) };
    await stage.run('backfill', { signal: stop.signal, watcher, resources: ['content'] });
    const position = (): Promise<unknown> =>
      stage.read((db) =>
        db.prepare("SELECT walk_position FROM _sync_checkpoints WHERE resource = 'content'").pluck().get(),
      );
    expect(await position()).toContain('limit=20');

    stage.setProfile(resourceProfile({ page: { size: 50 } }));
    stage.sandbox.requests.clear();
    const report = await stage.run('backfill', { resources: ['content'] });
    expect(report.resources[0]).toMatchObject({ status: 'ok', mode: 'full', pages: 5, records: 250 });
    stage.setProfile(
      resourceProfile({
        page: { style: 'offset', offset_param: 'offset', size_param: 'limit', size: 50, total: 'total' },
      }),
    );
    expect((await stage.run('sync')).status).toBe('ok');
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});
