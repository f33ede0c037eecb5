import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { DATABASES, USUAL } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';

/** Slow enough that a second process finds the first one at work. */
const SLOW = { generate: { content: 100, images: 15, analytics: 40 }, latency: 80 };
const SMALL_PAGES = { page: { size: 10 } };
const PROFILE = { resources: { content: SMALL_PAGES, images: SMALL_PAGES, analytics: SMALL_PAGES } };

function pathsAsked(stage: Journey): string[] {
  return stage.sandbox.requests.entries().map(({ path }) => path);
}

function rowsAndRunning(stage: Journey): Promise<unknown> {
  return stage.read((db) => [
    db.prepare<[], number>('SELECT count(*) FROM content').pluck().get(),
    db.prepare<[], string>(`SELECT walk_position FROM _sync_checkpoints WHERE resource = 'content'`).pluck().get(),
  ]);
}

describe.for([USUAL])('two processes on one warehouse on $name', (database) => {
  it('F133 leaves the first one its work where both start at the same moment', async () => {
    // On a busy machine one of them may begin seconds later: the other one is still at work.
    const stage = await journey({ database, sandbox: { ...SLOW, latency: 400 }, profile: PROFILE });
    const both = await Promise.all([stage.start('backfill').ended, stage.start('backfill').ended]);
    expect(new Set(both.map(({ code }) => code))).toEqual(new Set([0, 1]));
    expect(both.find(({ code }) => code === 1)?.stderr).toContain('lease_held');
    const paths = pathsAsked(stage);
    expect(paths).toHaveLength(new Set(paths).size);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });

  it('F133 starts at once after the holder was killed here, and waits for the lease of one that was killed elsewhere', async () => {
    const stage = await journey({ database, sandbox: SLOW, profile: PROFILE });
    const first = await stage.startUntil(5, 'backfill');
    first.kill('SIGKILL');
    await first.ended;
    const left = await stage.read((db) =>
      db.prepare<[], string>('SELECT max(expires_at) FROM _sync_leases').pluck().get(),
    );
    expect(Date.parse(`${left?.replace(' ', 'T')}Z`)).toBeGreaterThan(Date.now() + 30_000);
    const elsewhere = "UPDATE _sync_leases SET host = 'elsewhere', owner = 'pid 7 on elsewhere'";
    const [here] = await stage.read((db) =>
      db.prepare<[], { host: string; owner: string }>('SELECT host, owner FROM _sync_leases').all(),
    );
    await stage.write(elsewhere);
    const early = await stage.command('backfill');
    expect(early).toMatchObject({ code: 1, stderr: expect.stringContaining('is being synced by pid 7 on elsewhere') });
    await stage.write('UPDATE _sync_leases SET host = ?, owner = ?', here?.host, here?.owner);
    expect(await stage.command('backfill')).toMatchObject({ code: 0 });
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    await stage.write(`${elsewhere}, expires_at = '2000-01-01 00:00:00.000'`);
    expect(await stage.command('backfill')).toMatchObject({ code: 0 });
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});

describe.for(DATABASES)('two processes on one warehouse on $name', (database) => {
  it('F133 ends the second one with exit 1, names the holder, and fences that one off once its lease ran out: it can no longer commit', async () => {
    const stage = await journey({ database, sandbox: SLOW, profile: PROFILE });
    const frozen = await stage.startUntil(5, 'backfill');
    frozen.kill('SIGSTOP');
    const second = await stage.command('backfill');
    expect(second).toMatchObject({ code: 1, stdout: '' });
    expect(second.stderr).toContain('lease_held');
    expect(second.stderr).toContain(`is being synced by pid ${frozen.pid} on `);
    expect(second.stderr).toContain('wait until it is done');
    await stage.write(`UPDATE _sync_leases SET expires_at = '2000-01-01 00:00:00.000'`);
    const next = await stage.command('backfill');
    expect(next).toMatchObject({ code: 0, stderr: '' });
    const before = await rowsAndRunning(stage);
    frozen.kill('SIGCONT');
    const thawed = await frozen.ended;
    expect(thawed.code).toBe(1);
    expect(thawed.stderr).toContain('lease_lost');
    expect(await rowsAndRunning(stage)).toEqual(before);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});
