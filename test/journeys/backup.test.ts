import { asOther, rowsIn } from '../support/temp-warehouse.ts';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { startCommand, type Command } from '../support/command.ts';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { eventBody, servingStage, until, type Serving, type ServingStage } from '../support/serving.ts';

const RECORDS = { content: 120, images: 5, analytics: 5 };

/** Everything of ours and of the service in a warehouse or an inbox. */
const rowsOf = (file: string, table: string): unknown[] => rowsIn(file, `SELECT * FROM ${table}`);

/** Writes something else over the first place where a text stands. */
const patched = (search: string, by: string) => (copy: string) => {
  const bytes = readFileSync(copy);
  bytes.write(by, bytes.indexOf(search));
  writeFileSync(copy, bytes);
};

const changed = (statement: string) => (copy: string) => asOther(copy, (db) => void db.exec(statement));

/** Changes records all the time, each with a delivery; how many were acknowledged. */
function storm(stage: ServingStage, serving: Serving) {
  let acknowledged = 0;
  const over = new AbortController();
  const sending = (async () => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      stage.write('content', `told_${n}`, { title: `told ${n}` });
      const body = eventBody({ resource: 'content', id: `told_${n}` });
      const status = await serving.deliver({ id: `msg_${n}`, body });
      if (status === 0) return;
      if (status === 202) acknowledged = n + 1;
    }
  })();
  return {
    acknowledged: () => acknowledged,
    stop: async () => {
      over.abort();
      await sending;
      return acknowledged;
    },
  };
}

function idsIn(rows: unknown[], column: string): unknown[] {
  return rows.map((row) => new Map(Object.entries(Object(row))).get(column));
}

/** Each kill comes at another moment between the first write and the end. */
const MOMENTS = 7;

/** A copy, and an inbox beside it. */
async function stageWithCopy(): Promise<ServingStage> {
  const stage = await servingStage({
    sandbox: { generate: { ...RECORDS, content: longOrShort(1_500, 600) } },
    database: SQLITE,
    isInside: true,
  });
  expect(await stage.run('backfill', '--log-level', 'silent')).toMatchObject({ code: 0 });
  // So that there is an inbox as well.
  const serving = await stage.serve();
  expect(await serving.stop()).toMatchObject({ code: 0 });
  return stage;
}

const start = (stage: ServingStage, ...args: string[]): Command =>
  startCommand([...args, '--config', path.join(stage.folder, 'content-sync.yaml')], stage.folder);

/** Kills it some time after it has begun to write a file that matches; false if it was faster. */
async function killed(stage: ServingStage, command: Command, begun: RegExp, ms: number): Promise<boolean> {
  const isBegun = (): boolean => readdirSync(stage.folder).some((name) => begun.test(name));
  const over = new AbortController();
  const ended = command.ended.finally(() => over.abort());
  while (!isBegun() && !over.signal.aborted) await delay(1);
  await delay(ms);
  command.kill('SIGKILL');
  return (await ended).signal === 'SIGKILL';
}

/** A file that is there under the name of the backup can be restored, whenever its backups were killed. */
async function killedBackups(stage: ServingStage, rounds: number): Promise<void> {
  let kills = 0;
  for (let round = 0; round < rounds; round += 1) {
    const command = start(stage, 'backup', 'blog.backup');
    if (await killed(stage, command, /\.part/, (round % MOMENTS) * 15)) kills += 1;
    const file = path.join(stage.folder, 'blog.backup');
    const { code } = existsSync(file) ? await stage.run('restore', 'blog.backup') : { code: 0 };
    expect(code).toBe(0);
    rmSync(file, { force: true });
  }
  expect(kills).toBeGreaterThan(0);
  expect(await stage.run('backup', 'blog.backup')).toMatchObject({ code: 0 });
  expect(readdirSync(stage.folder).filter((name) => name.includes('.part'))).toEqual([]);
  expect(await stage.run('restore', 'blog.backup')).toMatchObject({ code: 0 });
}

/** After each kill the warehouse is that from before, or that of the backup. */
async function killedRestores(stage: ServingStage, rounds: number): Promise<void> {
  const write = (word: string): void => changed(`UPDATE content SET title = '${word}'`)(stage.file());
  const titles = (): unknown[] => rowsOf(stage.file(), '(SELECT DISTINCT title FROM content)');
  write('then');
  expect(await stage.run('backup', 'blog.backup')).toMatchObject({ code: 0 });
  for (let round = 0; round < rounds; round += 1) {
    write('now');
    const command = start(stage, 'restore', 'blog.backup');
    await killed(stage, command, /\.restored$/, (round % MOMENTS) * 15);
    // Whatever it left, a serve starts on it.
    const serving = await stage.serve();
    await serving.stop();
    for (const file of [stage.file(), stage.inboxFile()]) {
      expect(rowsOf(file, 'pragma_integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    }
    expect([[{ title: 'now' }], [{ title: 'then' }]]).toContainEqual(titles());
  }
  expect(await stage.run('restore', 'blog.backup')).toMatchObject({ code: 0 });
  expect(titles()).toEqual([{ title: 'then' }]);
  expect(readdirSync(stage.folder).filter((name) => /restore|replaced/.test(name))).toEqual([]);
}

describe('a backup on SQLite', { timeout: longOrShort(3_600_000, 120_000) }, () => {
  it('is taken while serve runs, can be read as a SQLite database, and loses nothing acknowledged', async () => {
    const stage = await servingStage({ sandbox: { generate: RECORDS }, database: SQLITE });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const sender = storm(stage, serving);
    await until('under way', () => sender.acknowledged() > 20);
    // On a busy machine more may be acknowledged than done.
    await until('some are done', () => rowsOf(stage.inboxFile(), "_sync_deliveries WHERE state = 'done'").length > 0);
    const before = sender.acknowledged();
    const file = path.join(stage.folder, 'blog.backup');
    const made = await stage.run('backup', '{source}.backup');
    expect(made).toMatchObject({ code: 0, stderr: '' });
    expect(made.stdout).toMatch(/^blog: .*blog\.backup contains the warehouse and inbox as of \S+Z \(.* MB\)\n$/);
    const after = await sender.stop();
    expect(after).toBeGreaterThan(before);

    expect(rowsOf(file, 'pragma_integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(rowsOf(file, '_sync_backup')).toMatchObject([{ source: 'blog' }]);
    // A delivery that is done there has its row there; one that was acknowledged before is there.
    const deliveries = rowsOf(file, '_sync_backup_deliveries');
    const done = idsIn(rowsOf(file, "_sync_backup_deliveries WHERE state = 'done'"), 'record_id');
    expect(deliveries.length).toBeGreaterThanOrEqual(before);
    const copied = new Set(idsIn(rowsOf(file, 'content'), 'id'));
    expect(done.filter((id) => !copied.has(id))).toEqual([]);
    expect(done.length).toBeGreaterThan(0);

    // Somebody works on it, or has it open.
    expect(await stage.run('restore', file)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/lease_held|in_use/),
    });
    await stage.settled();
    expect(await serving.stop()).toMatchObject({ code: 0 });
    const reader = new Database(stage.file());
    reader.prepare('SELECT count(*) FROM content').get();
    expect((await stage.run('restore', file)).stderr).toContain('warehouse_in_use');
    reader.close();

    const rowsThen = rowsOf(file, 'content ORDER BY id');
    const restored = await stage.run('restore', file, '--json');
    expect(restored).toMatchObject({ code: 0, stderr: '' });
    const later = Number(JSON.parse(restored.stdout).deliveries);
    expect(rowsOf(stage.file(), 'content ORDER BY id')).toEqual(rowsThen);
    const finished = rowsOf(stage.inboxFile(), "_sync_deliveries WHERE state <> 'waiting'");
    expect(rowsOf(stage.inboxFile(), '_sync_deliveries').length).toBe(after);
    expect(new Set(idsIn(finished, 'record_id'))).toEqual(new Set(done));
    expect(later).toBe(after - done.length);
    expect(readdirSync(stage.folder).filter((name) => /restore|replaced|part/.test(name))).toEqual([]);
    // What was acknowledged after the backup is worked on again: no schedule is due.
    const again = await stage.serve({ isInside: true });
    await stage.settled();
    expect(await again.stop()).toMatchObject({ code: 0 });
  });

  it('is refused where it is none, not whole, damaged, newer, of another source or in the way of a file', async () => {
    const stage = await servingStage({
      sandbox: { generate: { content: 30, images: 3, analytics: 3 } },
      database: SQLITE,
    });
    expect((await stage.run('backup', 'b.backup')).stderr).toContain('warehouse_missing');
    expect(await stage.run('backfill')).toMatchObject({ code: 0 });
    const file = path.join(stage.folder, 'b.backup');
    expect(await stage.run('backup', 'b.backup')).toMatchObject({ code: 0 });
    const state = (): string => readFileSync(stage.file()).toString('base64');
    const whole = state();
    const refused = async (change: (copy: string) => void): Promise<string> => {
      const copy = path.join(stage.folder, 'c.backup');
      copyFileSync(file, copy);
      change(copy);
      const { code, stderr } = await stage.run('restore', copy);
      expect(code).toBe(2);
      expect(state()).toBe(whole);
      return /\[(\w+)\]/.exec(stderr)?.[1] ?? stderr;
    };
    const size = readFileSync(file).length;
    expect(await refused((copy) => writeFileSync(copy, 'not a backup at all'))).toBe('backup_invalid');
    expect(await refused((copy) => writeFileSync(copy, ''))).toBe('backup_invalid');
    for (const part of [0.1, 0.5, 0.999]) {
      expect(await refused((copy) => truncateSync(copy, Math.floor(size * part)))).toBe('backup_invalid');
    }
    expect(await refused(patched('SQLite format', 'SQLote format'))).toBe('backup_invalid');
    expect(await refused((copy) => writeFileSync(copy, 'backup.json\0 of an archive'))).toBe('backup_invalid');
    expect(await refused(changed('UPDATE _sync_backup SET format = 99'))).toBe('backup_invalid');
    expect(await refused(changed("UPDATE _sync_backup SET source = 'blig'"))).toBe('backup_invalid');
    expect((await stage.run('restore', 'nowhere.backup')).stderr).toContain('backup_invalid');
    for (const place of [stage.file(), 'profile.yaml', path.join('no', 'folder')]) {
      expect(await stage.run('backup', place)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('backup_refused'),
      });
    }
    expect(state()).toBe(whole);

    // A damaged warehouse is not backed up, and can be replaced.
    const copy = readFileSync(stage.file());
    copy.fill(7, 16_384, 3 * 16_384);
    writeFileSync(stage.file(), copy);
    expect((await stage.run('backup', 'b.backup')).stderr).toContain('warehouse_corrupt');
    expect(await stage.run('restore', 'b.backup')).toMatchObject({ code: 0 });
    expect(rowsOf(stage.file(), 'content')).toHaveLength(30);
    // So can one that is gone, with its log still there.
    execFileSync('mv', [stage.file(), `${stage.file()}.old`]);
    appendFileSync(`${stage.file()}-wal`, 'what is left');
    expect(await stage.run('restore', 'b.backup')).toMatchObject({ code: 0 });
    expect(rowsOf(stage.file(), 'content')).toHaveLength(30);
    expect(existsSync(`${stage.file()}-wal.left`)).toBe(true);
    expect(await stage.run('sync')).toMatchObject({ code: 0 });
  });

  it('is there whole or not at all, however often it is killed; so is what is restored', async () => {
    const stage = await stageWithCopy();
    await killedBackups(stage, longOrShort(10, 1));
    await killedRestores(stage, longOrShort(10, 1));
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
    const restoring = await stage.run('restore', 'blog.dump');
    expect(restoring.stderr).toContain('pg_restore --clean --if-exists --single-transaction');
  });
});
