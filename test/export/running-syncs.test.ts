import { truncate } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openSnapshot } from '../../src/database/databases.ts';
import { SnapshotLost } from '../../src/database/snapshot-reader.ts';
import { asOtherClient, DATABASES, SQLITE } from '../support/databases.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';
import { asOther } from '../support/temp-warehouse.ts';
import { inDuckDb, tableIn } from './read-back.ts';
import { manyRows } from './standing.ts';

/** Raises a number in two tables, in one transaction. */
async function raise(stage: OwnStage, isFile: boolean): Promise<void> {
  const [first, second] = ['UPDATE content SET views = views + 1', 'UPDATE content_marks SET n = n + 1'];
  if (isFile) return asOther(stage.file, (db) => void db.transaction(() => db.exec(`${first}; ${second}`))());
  await asOtherClient(stage.address, (client) => client.query(`BEGIN; ${first}; ${second}; COMMIT`));
}

describe.for(DATABASES)('an export during runs, from $name', (database) => {
  it('shows all tables as of one time', async () => {
    const stage = await ownStage(database, [
      { id: 'a', views: 0, marks: [{ n: 0 }, { n: 0 }], day: '2024-01-01', body: 'x' },
    ]);
    await manyRows(stage, 3_000);
    await stage.write('UPDATE content SET views = 0');
    const command = stage.start('export', 'parquet', 'out', '--full');
    const over = command.ended.then(() => true);
    let raised = 0;
    for (; !(await Promise.race([delay(5, false), over])); raised += 1) await raise(stage, database === SQLITE);
    const { code, stderr } = await command.ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(raised).toBeGreaterThan(1);
    const folder = path.join(stage.folder, 'out');
    const from = (table: string): string =>
      `read_parquet([${tableIn(folder, table)
        .files.map((file) => `'${path.join(folder, file.path)}'`)
        .join(', ')}])`;
    const { rows } = await inDuckDb(`SELECT (SELECT min(views) = max(views) FROM ${from('content_live')}),
      (SELECT min(n) = max(n) FROM ${from('content_marks_live')}),
      (SELECT max(views) FROM ${from('content_live')}) = (SELECT max(n) FROM ${from('content_marks_live')})`);
    expect(rows).toEqual([[true, true, true]]);
  });
});

describe('a snapshot of an idle SQLite file', () => {
  it('is lost once another process opens the file', async () => {
    const stage = await ownStage(SQLITE, [{ id: 'a', views: 0, day: '2024-01-01', body: 'x'.repeat(1_000) }]);
    await manyRows(stage, 5_000);
    const columns = [{ name: 'id', type: 'text' } as const, { name: 'body', type: 'text' } as const];
    const snapshot = await openSnapshot(stage.address, systemClock);
    const read = async (): Promise<number> => {
      let rows = 0;
      for await (const batch of snapshot.rows({ view: 'content_live', columns, orderBy: [] })) {
        rows += batch.length;
        // Whoever writes keeps it open.
        other ??= await ownWriter(stage);
      }
      return rows;
    };
    let other: (() => Promise<void>) | null = null;
    await expect(read()).rejects.toBeInstanceOf(SnapshotLost);
    await snapshot.close();
    // The next one stands beside it.
    const next = await openSnapshot(stage.address, systemClock);
    let rows = 0;
    for await (const batch of next.rows({ view: 'content_live', columns, orderBy: [] })) rows += batch.length;
    await next.close();
    expect(rows).toBe(5_001);
    await (other as (() => Promise<void>) | null)?.();
  });

  it('is lost if another process wrote between two queries', async () => {
    const stage = await ownStage(SQLITE, [{ id: 'a', views: 0, marks: [{ n: 0 }], day: '2024-01-01', body: 'x' }]);
    await manyRows(stage, 2_000);
    const snapshot = await openSnapshot(stage.address, systemClock);
    const views = { view: 'content_live', columns: [{ name: 'views', type: 'integer' } as const], orderBy: [] };
    const seen = async (): Promise<Set<unknown>> => {
      const found = new Set<unknown>();
      for await (const batch of snapshot.rows(views)) for (const [value] of batch) found.add(value);
      return found;
    };
    expect((await seen()).size).toBeGreaterThan(0);
    await raise(stage, true);
    await expect(seen()).rejects.toBeInstanceOf(SnapshotLost);
    await snapshot.close();
  });

  it('is lost, and not damaged, if pages of two states were read', async () => {
    const stage = await ownStage(SQLITE, [{ id: 'a', views: 0, day: '2024-01-01', body: 'x' }]);
    await manyRows(stage, 2_000);
    const snapshot = await openSnapshot(stage.address, systemClock);
    await truncate(stage.file, 8 * 4_096);
    const columns = [{ name: 'body', type: 'text' } as const];
    const rows = snapshot.rows({ view: 'content_live', columns, orderBy: [] });
    await expect(rows[Symbol.asyncIterator]().next()).rejects.toBeInstanceOf(SnapshotLost);
    await snapshot.close();
  });
});

/** Opens the warehouse and writes to it; returns what closes it. */
async function ownWriter(stage: OwnStage): Promise<() => Promise<void>> {
  const app = await stage.open();
  await stage.write('UPDATE content SET views = 1');
  return () => app.close();
}
