import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readViews } from '../../src/state/view-catalog.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouseToRead } from '../../src/warehouse/databases.ts';
import { eitherDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { journey } from '../support/journey.ts';
import { data, isHere } from '../journeys/real-blog.ts';
import { inDuckDb, manifestIn, tableIn } from './read-back.ts';
import { expectSnapshot } from './standing.ts';

const EITHER = eitherDatabase(import.meta.filename);

/** Names of all views that stand. */
async function viewNames(address: string): Promise<string[]> {
  const reader = await openWarehouseToRead(address, systemClock);
  const names = [...(await readViews(reader.own)).keys()];
  await reader.close();
  return names;
}

describe.skipIf(!isHere).for(EITHER)('an export of the whole blog from $name', (database) => {
  it('holds every row of every view, and the facts by month', async () => {
    const blog = await journey({
      database,
      sandbox: { data, rate: 400, burst: 400 },
      profile: { resources: { analytics: { page: { size: 1_000 } } } },
    });
    await blog.run('backfill');
    // The largest of the summaries takes seconds to read on SQLite.
    const all = await viewNames(blog.address);
    const names = longOrShort(
      all,
      all.filter((name) => name !== 'images_summary'),
    );
    expect(names).toEqual(
      expect.arrayContaining(['content_history', 'content_summary', 'sync_deletes', 'sync_dictionary']),
    );
    expect(await blog.command('export', 'parquet', 'out', '--tables', names.join(','))).toMatchObject({
      code: 0,
      stderr: '',
    });
    const folder = path.join(blog.folder, 'out');
    expect(manifestIn(folder).tables.map(({ name }) => name)).toEqual(names.toSorted());
    await expectSnapshot(database, blog, folder);
    // As a reader by Hive's folders sees them.
    const analytics = tableIn(folder, 'analytics_live');
    expect(analytics).toMatchObject({ month_of: 'date', rows: 30_480 });
    const { rows } = await inDuckDb(`SELECT count(*)::INT, bool_and("month" = strftime("date", '%Y-%m'))
      FROM read_parquet('${folder}/analytics_live/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)`);
    expect(rows).toEqual([[30_480, true]]);
    expect(tableIn(folder, 'content_live').month_of).toBeNull();
    // It has the dates of other resources too.
    expect(tableIn(folder, 'content_summary').month_of).toBeNull();
    expect(await blog.command('export', 'parquet', 'usual', '--json')).toMatchObject({ code: 0, stderr: '' });
    const usual = manifestIn(path.join(blog.folder, 'usual')).tables.map(({ name }) => name);
    expect(usual.toSorted()).toEqual(names.filter((name) => /_live$|^sync_d/.test(name)).toSorted());
  });
});
