import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { journey } from '../support/journey.ts';
import { eitherDatabase, SQLITE } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';
import { manifestIn } from './read-back.ts';
import { filesBelow } from './standing.ts';
import { MAIN } from '../support/command.ts';

const RECORDS = [{ id: 'a', views: 1 }];

describe('the place of an export', () => {
  it.for(eitherDatabase(import.meta.filename))(
    'is not opened before there is a warehouse, and $name is not created',
    async (database) => {
      const blog = await journey({ database, isNew: true });
      const { code, stderr } = await blog.command('export', 'csv', 'out');
      expect([code, stderr]).toEqual([2, expect.stringContaining('[warehouse_missing]')]);
    },
  );

  it('is refused if it holds other files', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'thesis.txt'), 'x');
    const { code, stderr } = await stage.command('export', 'parquet', 'out');
    expect([code, stderr]).toEqual([2, expect.stringMatching(/thesis\.txt \[export_unwritable\]\n {2}→ /)]);
    expect(filesBelow(folder)).toEqual(['thesis.txt']);
  });

  it('is refused if its manifest is foreign or belongs to another source', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'manifest.json'), '{"name":"app"}');
    expect(await stage.command('export', 'csv', 'out')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('[export_unwritable]'),
    });
    expect((await stage.command('export', 'csv', 'other')).code).toBe(0);
    const other = path.join(stage.folder, 'other', 'manifest.json');
    writeFileSync(other, readFileSync(other, 'utf8').replace('"source": "blog"', '"source": "shop"'));
    expect(await stage.command('export', 'csv', 'other')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/source shop.*\[export_unwritable\]/),
    });
  });

  it('may hold other files next to an export, which stay', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    expect((await stage.command('export', 'csv', 'out')).code).toBe(0);
    writeFileSync(path.join(folder, 'README.txt'), 'x');
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    const listed = manifestIn(folder).tables.flatMap(({ files }) => files.map((file) => file.path));
    expect(filesBelow(folder).toSorted()).toEqual(['README.txt', 'manifest.json', ...listed].toSorted());
    expect(listed.every((file) => file.endsWith('.parquet'))).toBe(true);
  });

  it('must be a folder in which this user may write', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    writeFileSync(path.join(stage.folder, 'file'), 'x');
    for (const place of ['file', 'file/below', '/proc/out']) {
      const { code, stderr } = await stage.command('export', 'csv', place);
      expect([place, code, stderr]).toEqual([place, 2, expect.stringMatching(/\[export_unwritable\]\n {2}→ /)]);
    }
  });

  it('is locked by a running process', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    expect((await stage.command('export', 'csv', 'out')).code).toBe(0);
    const lock = path.join(folder, '.content-sync-export.lock');
    const { processNamespace } = await import('../../src/database/state/leases.ts');
    // The one that started the tests lives; and a process of that number does not.
    for (const [pid, expected] of [
      [process.ppid, 1],
      [2 ** 22 + 1, 0],
    ] as const) {
      writeFileSync(lock, JSON.stringify({ pid, host: processNamespace(false) }));
      const { code, stderr } = await stage.command('export', 'csv', 'out', '--full');
      expect([code, stderr.includes('export_failed')]).toEqual([expected, expected === 1]);
    }
    expect(filesBelow(folder)).not.toContain('.content-sync-export.lock');
  });

  it('is not created if a view does not exist', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const { code, stderr } = await stage.command('export', 'csv', 'out', '--tables', 'content_live,contents');
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/no view "contents" to export \[usage\]\n {2}→ there are .*content_live/),
    ]);
    expect(filesBelow(path.join(stage.folder, 'out'))).toEqual([]);
  });

  it('may be full: the previous export stays, and the next one succeeds once there is room', async (context) => {
    const stage = await ownStage(SQLITE, [
      { id: 'a', views: 1, body: randomBytes(300_000).toString('hex'), day: '2024-01-01' },
    ]);
    const folder = path.join(stage.folder, 'out');
    mkdirSync(folder);
    const start = (command: string) =>
      spawnSync('unshare', ['-m', 'sh', '-c', `mount -t tmpfs -o size=2m tmpfs "$1" && ${command}`, 'sh', folder], {
        encoding: 'utf8',
      });
    if (start('true').status !== 0) context.skip('this user may not mount a small volume');
    const run = `"${process.execPath}" "${MAIN}" export csv "$1" --config "${stage.config}" --full`;
    const check = 'cp "$1/manifest.json" "$1/../kept.json"; find "$1" -name "part-*" | wc -l';
    const { stdout, stderr } = start(
      `${run} >&2 && dd if=/dev/zero of="$1/big" bs=1000 count=900 2>&1 | tail -n 0; ${run} >&2; echo "code $?"; ${check}; rm "$1/big"; ${run} >&2; echo "code $?"; ${check}`,
    );
    expect(stderr).toMatch(/"code":"export_failed",.*"hint":"make room/);
    // A full volume may have no room for the lock either: the code is the same.
    expect(stdout.trim().split(/\s*\n/)).toEqual(['code 1', '3', 'code 0', '3']);
  });

  it('is the only folder that an export of a read-only warehouse writes to', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const before = filesBelow(stage.folder);
    chmodSync(stage.file, 0o400);
    expect((await stage.command('export', 'ndjson', 'out', '--json')).code).toBe(0);
    expect(filesBelow(stage.folder).filter((file) => !file.startsWith('out'))).toEqual(before);
  });
});
