import { rowsIn } from '../support/temp-warehouse.ts';
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startCommand, type Command } from '../support/command.ts';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { findInFolder } from '../support/find-bytes.ts';
import { longOrShort } from '../support/length.ts';
import { eventBody, servingStage, until, type Serving, type ServingStage } from '../support/serving.ts';

const RECORDS = { content: 120, images: 5, analytics: 5 };
const NEEDLE = 'needle-of-an-erased-record';

const rowsOf = (file: string, table: string): unknown[] => rowsIn(file, `SELECT * FROM ${table}`);

/** Changes records all the time, each with a delivery; returns how many were acknowledged. */
function storm(stage: ServingStage, serving: Serving) {
  const over = new AbortController();
  const sending = (async () => {
    let acknowledged = 0;
    for (let n = 0; !over.signal.aborted; n += 1) {
      stage.write('content', `told_${n}`, { title: `told ${n}` });
      const body = eventBody({ resource: 'content', id: `told_${n}` });
      if ((await serving.deliver({ id: `msg_${n}`, body })) === 202) acknowledged += 1;
    }
    return acknowledged;
  })();
  return {
    stop: async () => {
      over.abort();
      return sending;
    },
  };
}

/** Puts a backup in the place of the warehouse, as config/operations.md says. */
function putBack(stage: ServingStage, backup: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(`${stage.file()}${end}`, { force: true });
  copyFileSync(backup, stage.file());
}

/** Kills a backup some time after it has begun to write; false if it was faster. */
async function killed(command: Command, folder: string, ms: number): Promise<boolean> {
  const over = new AbortController();
  const ended = command.ended.finally(() => over.abort());
  while (!readdirSync(folder).some((name) => name.includes('.part')) && !over.signal.aborted) await delay(1);
  await delay(ms);
  command.kill('SIGKILL');
  return (await ended).signal === 'SIGKILL';
}

describe('a backup on SQLite', { timeout: longOrShort(3_600_000, 120_000) }, () => {
  it('is taken while serve runs; put back, it catches up with all later changes', async () => {
    const stage = await servingStage({
      sandbox: { generate: RECORDS },
      database: SQLITE,
      source: { deletes: { max_part: 1 } },
      settings: { privacy_key: 'a-privacy-key-of-this-test' },
    });
    stage.write('content', 'person-7f3a91c2', { note: NEEDLE });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const sender = storm(stage, serving);
    await until('some are done', () => rowsOf(stage.inboxFile(), "_sync_deliveries WHERE state = 'done'").length > 0);
    const made = await stage.run('backup', '{source}.backup');
    expect(made).toMatchObject({ code: 0, stderr: '' });
    expect(made.stdout).toMatch(/^blog: .*blog\.backup contains the warehouse as of \S+Z \(.* MB\)\n$/);
    const file = path.join(stage.folder, 'blog.backup');
    expect(rowsOf(file, 'pragma_integrity_check')).toEqual([{ integrity_check: 'ok' }]);

    // What happens after the backup: acknowledged deliveries, a delete, and the erasure of a record.
    const acknowledged = await sender.stop();
    await stage.settled();
    const [first] = stage.sandbox.store.list('content');
    stage.sandbox.store.remove('content', first?.id ?? '');
    expect(await serving.stop()).toMatchObject({ code: 0 });
    const forget = ['forget', 'content', 'person-7f3a91c2', '--yes'];
    expect(await stage.run(...forget)).toMatchObject({ code: 0 });

    putBack(stage, file);
    expect(await stage.run(...forget)).toMatchObject({ code: 0 });
    rmSync(file);
    expect(findInFolder(stage.folder, [NEEDLE])).toEqual([]);
    expect(await stage.run('sync')).toMatchObject({ code: 0 });
    expect(await stage.run('backfill')).toMatchObject({ code: 0 });
    expect(await stage.run('verify')).toMatchObject({ code: 0 });
    expect(rowsOf(stage.inboxFile(), '_sync_deliveries').length).toBe(acknowledged);
    expect(rowsOf(stage.file(), "content WHERE id LIKE 'told_%'").length).toBeGreaterThanOrEqual(acknowledged);
    expect(findInFolder(stage.folder, [NEEDLE])).toEqual([]);
  });

  it('is refused where there is none, it is damaged or a file is in the way; a killed one leaves nothing', async () => {
    const all = longOrShort(1_500, 600);
    const stage = await servingStage({
      sandbox: { generate: { ...RECORDS, content: all } },
      database: SQLITE,
    });
    expect((await stage.run('backup', 'b.backup')).stderr).toContain('warehouse_missing');
    expect(await stage.run('backfill', '--log-level', 'silent')).toMatchObject({ code: 0 });
    const config = path.join(stage.folder, 'content-sync.yaml');
    const file = path.join(stage.folder, 'b.backup');
    let kills = 0;
    for (let round = 0; round < longOrShort(10, 2); round += 1) {
      const command = startCommand(['backup', 'b.backup', '--config', config], stage.folder);
      if (await killed(command, stage.folder, (round % 7) * 15)) kills += 1;
      expect(existsSync(file) ? rowsOf(file, 'content').length : all).toBe(all);
    }
    expect(kills).toBeGreaterThan(0);
    for (const end of ['', '-wal', '-shm']) writeFileSync(`${file}.4194303.part${end}`, '');
    // Also over an earlier backup.
    for (let n = 0; n < 2; n += 1) expect(await stage.run('backup', 'b.backup')).toMatchObject({ code: 0 });
    expect(readdirSync(stage.folder).filter((name) => name.includes('.part'))).toEqual([]);

    const whole = readFileSync(stage.file()).toString('base64');
    for (const place of [stage.file(), 'profile.yaml', path.join('no', 'folder')]) {
      expect(await stage.run('backup', place)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('export_unwritable'),
      });
    }
    expect(readFileSync(stage.file()).toString('base64')).toBe(whole);

    const damaged = readFileSync(stage.file());
    damaged.fill(7, 16_384, 3 * 16_384);
    writeFileSync(stage.file(), damaged);
    expect((await stage.run('backup', 'b.backup')).stderr).toContain('warehouse_corrupt');
    putBack(stage, file);
    expect(await stage.run('sync')).toMatchObject({ code: 0 });
  });
});

describe.skipIf(POSTGRES.missing !== null)('a backup on Postgres', () => {
  it('is the work of pg_dump: the line that does it is named', async () => {
    const stage = await servingStage({ sandbox: { generate: RECORDS }, database: POSTGRES });
    const { code, stderr } = await stage.run('backup', 'blog.dump');
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /pg_dump --format=custom --schema='"blog"' --file='.*blog\.dump' 'postgres:\/\/127\.0\.0\.1:\d+\/\w+'/,
    );
  });
});
