import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader } from '../../../src/load/page-loader.ts';
import { HISTORY_POLICIES } from '../../../src/model/vocabulary.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { ownResources } from '../../../src/database/state/owned-resource.ts';
import { asOtherClient, DATABASES, warehouseOn, type TestDatabase } from '../../support/databases.ts';
import { softDelete } from '../../support/soft-delete.ts';
import { profilesFor, profileWith, recordsOf } from '../../support/page-records.ts';

const CASES = DATABASES.flatMap((database) => HISTORY_POLICIES.map((history) => ({ database, history })));
const DELETES = `SELECT resource, id, CAST(deleted_at AS TEXT) AS deleted_at, CAST(restored_at AS TEXT) AS restored_at
  FROM sync_deletes ORDER BY id, deleted_at, restored_at IS NOT NULL`;

function second(time: string | null | undefined): string {
  return time?.slice(0, 19) ?? '-';
}

/** As another program would, with times as SQLite writes them. */
async function deletes(database: TestDatabase, address: string): Promise<string[]> {
  const rows =
    database.name === 'sqlite'
      ? await database.read(address, (db) => db.prepare<[], Record<string, string | null>>(DELETES).all())
      : await asOtherClient(address, async (client) => {
          await client.query("SET timezone TO 'UTC'");
          return (await client.query<Record<string, string | null>>(DELETES)).rows;
        });
  return rows.map(
    (row) => `${row['resource']} ${row['id']} ${second(row['deleted_at'])} ${second(row['restored_at'])}`,
  );
}

const SECOND = (at: number): string => `2026-01-01 00:00:${String(at).padStart(2, '0')}`;

describe.for(CASES)('sync_deletes on $database.name with history: $history', ({ database, history }) => {
  it('has every delete and its restore', async () => {
    const opened = await warehouseOn(database);
    const { warehouse, address } = opened;
    const owned = await ownResources(warehouse, systemClock).acquire('content');
    onTestFinished(() => owned.release());
    const profile = profileWith({ updated: null, history });
    const signal = new AbortController().signal;
    const context = { warehouse, owned, ...profilesFor(profile), runId: 'run', clock: systemClock, signal };
    const loader = await openPageLoader(context, { acceptsOlder: true });
    const begin = Date.parse('2026-01-01T00:00:00Z');
    const load = (at: number, ...texts: string[]) =>
      loader.load({ records: recordsOf(texts), requestedAt: begin + at * 1_000 }, () => []);
    const remove = (at: number, key: string, deletedAt: string | null = null) => {
      const gone = { keys: [key], at: timestampText(begin + at * 1_000), deletedAt, history };
      return owned.runAlone(() => softDelete(warehouse, owned, gone));
    };

    await load(1, '{"id":"a","n":1}', '{"id":"b","n":1}', '{"id":"c","n":1}');
    expect(await deletes(database, address)).toEqual([]);
    await remove(2, 'a');
    await remove(3, 'b', '2025-12-24 12:00:00.000');
    // One that is gone already is no second delete.
    await remove(4, 'b');
    expect(await deletes(database, address)).toEqual([`content a ${SECOND(2)} -`, 'content b 2025-12-24 12:00:00 -']);
    await load(5, '{"id":"a","n":1}', '{"id":"b","n":2}', '{"id":"c","n":2}');
    await remove(6, 'b', '2025-12-24 12:00:00.000');
    expect(await deletes(database, address)).toEqual([
      `content a ${SECOND(2)} ${SECOND(5)}`,
      'content b 2025-12-24 12:00:00 -',
      `content b 2025-12-24 12:00:00 ${SECOND(5)}`,
    ]);
    await remove(7, 'a');
    await load(8, '{"id":"a","n":3}', '{"id":"c","n":2}');
    expect((await deletes(database, address)).filter((row) => row.startsWith('content a'))).toEqual([
      `content a ${SECOND(2)} ${SECOND(5)}`,
      `content a ${SECOND(7)} ${SECOND(8)}`,
    ]);
  });
});
