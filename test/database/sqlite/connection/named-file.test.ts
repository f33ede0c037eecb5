import { existsSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openInbox } from '../../../../src/database/databases.ts';
import type { Inbox } from '../../../../src/database/inbox.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { rowsIn, tempFolder, tempWarehouse } from '../../../support/temp-warehouse.ts';
import { delivery } from '../../deliveries.ts';

const GONE = { code: 'warehouse_gone' };

async function inboxIn(file: string): Promise<Inbox> {
  const inbox = await openInbox(`sqlite:${file}`, systemClock);
  onTestFinished(() => inbox.close());
  return inbox;
}

const idsIn = (file: string): unknown[] =>
  rowsIn(file, 'SELECT delivery_id FROM _sync_deliveries ORDER BY seq').map((row) => row['delivery_id']);

describe('a file that is open and has lost its name', () => {
  it('is neither read nor written as long as it is away, and is when it is back', async () => {
    const { warehouse, file } = await tempWarehouse();
    renameSync(file, `${file}.away`);
    await expect(warehouse.apply([])).rejects.toMatchObject(GONE);
    await expect(warehouse.own.selectFrom('_sync_runs').selectAll().execute()).rejects.toMatchObject(GONE);
    await warehouse.upkeep();
    expect(existsSync(file)).toBe(false);
    renameSync(`${file}.away`, file);
    await warehouse.apply([]);
  });

  it('takes no delivery, whatever of it was moved, and holds all that it took before', async () => {
    for (const end of ['', '-wal']) {
      const file = path.join(tempFolder(), 'blog-inbox.db');
      const inbox = await inboxIn(file);
      await inbox.write([delivery('taken')]);
      renameSync(file + end, `${file}.away`);
      await expect(inbox.write([delivery('refused')])).rejects.toMatchObject(GONE);
      renameSync(`${file}.away`, file + end);
      await inbox.write([delivery('later')]);
      expect(idsIn(file)).toEqual(['taken', 'later']);
    }
  });

  it('is told from another one of the same name, which gets nothing of what was in the first', async () => {
    const file = path.join(tempFolder(), 'blog-inbox.db');
    const inbox = await openInbox(`sqlite:${file}`, systemClock);
    await inbox.write([delivery('old')]);
    renameSync(file, `${file}.old`);
    writeFileSync(file, '');
    await expect(inbox.write([delivery('refused')])).rejects.toMatchObject(GONE);
    await inbox.close();
    // A log that is left beside the new file would be read as its own.
    expect([existsSync(`${file}-wal`), existsSync(`${file}-shm`)]).toEqual([false, false]);
    const next = await inboxIn(file);
    await next.write([delivery('new')]);
    expect(idsIn(file)).toEqual(['new']);
    expect(idsIn(`${file}.old`)).toEqual(['old']);
  });

  it('has its log put aside where a program still reads it, for whoever moved the file', async () => {
    const file = path.join(tempFolder(), 'blog-inbox.db');
    const inbox = await openInbox(`sqlite:${file}`, systemClock);
    await inbox.write([delivery('first')]);
    const reader = new Database(file);
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM _sync_deliveries').all();
    await inbox.write([delivery('second')]);
    renameSync(file, `${file}.old`);
    writeFileSync(file, '');
    await inbox.close();
    reader.close();
    expect([existsSync(`${file}-wal`), existsSync(`${file}-shm`)]).toEqual([false, false]);
    renameSync(`${file}-wal.left`, `${file}.old-wal`);
    expect(idsIn(`${file}.old`)).toEqual(['first', 'second']);
  });
});
