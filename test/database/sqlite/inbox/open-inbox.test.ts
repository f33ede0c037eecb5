import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openInbox } from '../../../../src/database/databases.ts';
import type { Inbox } from '../../../../src/database/inbox.ts';
import { openInboxFile } from '../../../../src/database/sqlite/inbox/open-inbox.ts';
import { startScript } from '../../../support/child-script.ts';
import { tempFolder } from '../../../support/temp-warehouse.ts';
import { delivery, moment } from '../../deliveries.ts';

const HOLDER = new URL('../../../support/lock-holder.ts', import.meta.url);

async function tempInbox(): Promise<{ inbox: Inbox; file: string }> {
  const file = `${tempFolder()}/blog-inbox.db`;
  const inbox = await openInbox(`sqlite:${file}`, systemClock);
  onTestFinished(() => inbox.close());
  return { inbox, file };
}

describe('an inbox in a file', () => {
  it('T1 is written with synchronous=FULL, also after a write and after it was opened again', async () => {
    const file = `${tempFolder()}/blog-inbox.db`;
    for (const id of ['a', 'b']) {
      const { db, own } = await openInboxFile(file, systemClock);
      const insert = 'INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body) VALUES (?, ?, ?, ?)';
      db.prepare(insert).run(id, moment(0), '{}', Buffer.from('{}'));
      expect(db.pragma('synchronous', { simple: true })).toBe(2);
      expect(db.pragma('journal_mode', { simple: true })).toBe('wal');
      await own.destroy();
    }
  });

  it('T2 F178 says at once that another program holds the lock, and takes the next one', async () => {
    const { inbox, file } = await tempInbox();
    const holder = startScript(HOLDER, [file, '300']);
    await holder.ready;
    const began = performance.now();
    await expect(inbox.write([delivery('a')])).rejects.toMatchObject({ name: 'SyncError', code: 'warehouse_busy' });
    // SQLite's own patience would have been five seconds.
    expect(performance.now() - began).toBeLessThan(1_000);
    await holder.ended;
    expect(await inbox.write([delivery('a')])).toEqual(['new']);
  });
});
