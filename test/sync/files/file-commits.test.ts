import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { acquireLease } from '../../../src/state/leases.ts';
import { dueFiles, FILES_LEASE, insertFiles } from '../../../src/state/files/record-files.ts';
import { FileCommits, INTO_FOLDERS } from '../../../src/sync/files/file-commits.ts';
import type { FileOutcome } from '../../../src/sync/files/settle-file.ts';
import type { FileRow } from '../../../src/warehouse/file-rows.ts';
import { DATABASES, warehouseOn } from '../../support/databases.ts';

const AT = '2026-01-01 00:00:00';
const NEW: FileRow = {
  resource: 'images',
  record_id: 'a',
  field: 'file',
  position: 0,
  version: 1,
  url: 'http://x/a',
  next_url: null,
  status: 'waiting',
  store: null,
  sha256: null,
  bytes: null,
  type: null,
  width: null,
  height: null,
  etag: null,
  last_modified: null,
  record_hash: 'h',
  attempts: 0,
  due_at: AT,
  code: null,
  error: null,
  fetched_at: null,
  valid_from: AT,
  valid_to: null,
};
const HERE: FileOutcome = {
  is: 'here',
  url: 'http://x/a',
  fetched: 3,
  content: {
    store: 'disk:x',
    sha256: 'ab'.repeat(32),
    bytes: 3,
    type: 'image/png',
    width: 1,
    height: 1,
    etag: null,
    last_modified: null,
  },
};

const nothing = (): Promise<void> => Promise.resolve();

describe.each(DATABASES)('outcomes of files, on $name', (database) => {
  it('are committed only when what they name is durable', async () => {
    const { warehouse } = await warehouseOn(database);
    const lease = await acquireLease(warehouse, FILES_LEASE, systemClock);
    const rows = [NEW, { ...NEW, record_id: 'b' }, { ...NEW, record_id: 'c' }];
    await warehouse.apply(insertFiles(warehouse.own, rows));
    const waiting = async (): Promise<number> =>
      (await dueFiles(warehouse.own, 'images', '2026-01-02 00:00:00', null, 10)).length;
    const seen: number[] = [];
    let isBroken = false;
    const settleStores = async (): Promise<void> => {
      seen.push(await waiting());
      if (isBroken) throw new Error('the disk says no');
    };
    const options = {
      warehouse,
      lease,
      clock: systemClock,
      gathering: INTO_FOLDERS,
      settleStores,
      committed: () => undefined,
    };
    const commits = new FileCommits(options);
    for (const row of rows.slice(0, 2)) await commits.add({ row, outcome: HERE });
    await commits.flush();
    expect([seen, await waiting()]).toEqual([[3], 1]);
    isBroken = true;
    const others = new FileCommits(options);
    await others.add({ row: { ...NEW, record_id: 'c' }, outcome: HERE });
    await expect(others.flush()).rejects.toThrow('the disk says no');
    expect([seen, await waiting()]).toEqual([[3, 1], 1]);
    await lease.release();
  });

  it('do not wait for others when none is under way', async () => {
    const { warehouse } = await warehouseOn(database);
    const lease = await acquireLease(warehouse, FILES_LEASE, systemClock);
    await warehouse.apply(insertFiles(warehouse.own, [NEW]));
    const { promise, resolve } = Promise.withResolvers<number>();
    const committed = (settled: readonly unknown[]): void => resolve(settled.length);
    const clock = { ...systemClock, sleep: () => new Promise<void>(() => undefined) };
    const commits = new FileCommits({
      warehouse,
      lease,
      clock,
      gathering: INTO_FOLDERS,
      settleStores: nothing,
      committed,
    });
    await commits.add({ row: NEW, outcome: HERE });
    commits.hurry();
    expect(await promise).toBe(1);
    await commits.flush();
    await lease.release();
  });
});
