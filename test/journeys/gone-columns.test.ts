import { describe, expect, it } from 'vitest';
import { ask } from '../support/asking.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';

type Fields = Record<string, unknown>;
type Change = (record: Fields, index: number) => Fields;

const EITHER = eitherDatabase(import.meta.filename);
const DAY_MS = 86_400_000;
const PAGE_SIZE = 10;
const FIRST_MS = Date.UTC(2026, 0, 1);

function record(index: number): Fields {
  const at = new Date(FIRST_MS + index * DAY_MS).toISOString();
  return {
    id: index,
    updated_at: at,
    title: `Title ${index}`,
    seo: { note: `Note ${index}`, words: index },
    published_at: at,
    labels: [`label ${index}`],
    closed_at: index % 10 === 0 ? at : null,
  };
}

function without(field: string): Change {
  return (each) => Object.fromEntries(Object.entries(each).filter(([name]) => name !== field));
}

/** What a service does to its records, and the entries of `sync_schema_log` that name columns without values. */
const CHANGES: readonly [what: string, change: Change, log: readonly string[]][] = [
  ['leaves a field out', without('title'), ['gone report.title']],
  ['renames a field', ({ title, ...rest }) => ({ ...rest, headline: title }), ['gone report.title']],
  [
    'turns an object into a list',
    ({ seo, ...rest }) => ({ ...rest, seo: [seo] }),
    ['renamed? report.seo_note report.seo', 'renamed? report.seo_words report.seo'],
  ],
  [
    'writes a time in another way',
    (each, index) => ({ ...each, published_at: `${(index % 28) + 1}.02.2026 10:00` }),
    [],
  ],
  ['changes values', (each, index) => ({ ...each, title: `Other ${index}` }), []],
];

const CASES = EITHER.flatMap((database) =>
  CHANGES.flatMap(([what, change, log], at) =>
    sampled(['full', 'incremental'] as const, 2, at).map((mode) => ({
      database,
      name: database.name,
      what,
      change,
      log,
      mode,
    })),
  ),
);

const untitled = without('title');

/** A service of so many records, of which `edit` changes those from an index on at its own time. */
async function changingService(database: TestDatabase, count: number, profile: Fields = {}) {
  let records = Array.from({ length: count }, (_, index) => record(index));
  const resource = {
    page: { style: 'cursor' },
    incremental: { param: 'since', lookback: '1s' },
    history: 'all',
    accept: ['end', 'filter'],
    ...profile,
  };
  const stage = await ownService(database, resource, ({ searchParams }) => {
    const since = searchParams.get('since') ?? '';
    const listed = records.filter(({ updated_at }) => String(updated_at) >= since);
    const page = Number(searchParams.get('page') ?? 1) - 1;
    const data = searchParams.has('page') ? listed.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE) : listed;
    return { body: { data, next_cursor: null } };
  });
  let edits = 0;
  const edit = (from: number, change: Change): void => {
    edits += 1;
    records = records.map((each, index) => {
      const at = new Date(FIRST_MS + (count + 100 * edits) * DAY_MS + index * 1_000).toISOString();
      return index < from ? each : { ...change(record(index), index), updated_at: at };
    });
  };
  const add = (more: readonly Fields[]): void => {
    records = [...records, ...more];
  };
  const run = async (command: 'backfill' | 'sync') => {
    const [report] = (await stage.run(command)).resources;
    return { status: report?.status, mode: report?.mode, warnings: report?.warnings ?? [] };
  };
  const log = async (): Promise<string[]> => {
    const rows = await ask(
      stage.address,
      `SELECT kind, table_name, column_name, renamed_to FROM sync_schema_log
       WHERE kind NOT IN ('new', 'widened') ORDER BY changed_at, table_name, column_name`,
    );
    return rows.map(({ kind, table_name, column_name, renamed_to }) =>
      [kind, `${table_name}.${column_name}`, renamed_to].filter(Boolean).join(' '),
    );
  };
  return { stage, edit, add, run, log };
}

describe.for(CASES)('$name, $mode: a service that $what', ({ database, change, log, mode }) => {
  it('is reported once, and again when the values are back', async () => {
    // A full scan decides by few records if it is all that there are.
    const [count, from] = mode === 'full' ? [8, 0] : [60, 35];
    const command = mode === 'full' ? 'backfill' : 'sync';
    const service = await changingService(database, count);
    await service.run('backfill');

    service.edit(from, change);
    const changed = await service.run(command);
    expect(changed).toMatchObject({ status: 'ok', mode });
    const gone = changed.warnings.filter(({ code }) => code === 'columns_gone');
    for (const entry of log) {
      const [, column = ''] = entry.split(' ');
      expect(gone.map(({ message }) => message).join('\n')).toContain(column);
    }
    expect(gone.length > 0).toBe(log.length > 0);
    expect(await service.log()).toEqual(log);

    service.edit(from, change);
    expect((await service.run(command)).warnings.filter(({ code }) => code === 'columns_gone')).toEqual([]);
    expect(await service.log()).toEqual(log);

    service.edit(from, (each) => each);
    await service.run(command);
    const back = log.map((entry) => `back ${entry.split(' ')[1]}`);
    expect((await service.log()).filter((entry) => entry.startsWith('back'))).toEqual(back);
  });
});

describe.for(EITHER)('$name: columns without values in a run', (database) => {
  const added = (from: number, count: number, change: Change): Fields[] =>
    Array.from({ length: count }, (_, at) => change(record(from + at), from + at));

  it('are reported if all of 20 new records lack the field, and not again if such records are usual', async () => {
    const service = await changingService(database, 60);
    await service.run('backfill');
    service.add(added(100, 19, untitled));
    await service.run('sync');
    expect(await service.log()).toEqual([]);
    service.add(added(200, 20, untitled));
    expect((await service.run('sync')).warnings.map(({ code }) => code)).toEqual(['columns_gone']);
    service.add(added(300, 1, (each) => each));
    await service.run('sync');
    service.add(added(400, 40, untitled));
    await service.run('sync');
    expect(await service.log()).toEqual(['gone report.title', 'back report.title']);
  });

  it.for<[what: string, from: number, change: Change, log: readonly string[]]>([
    ['null in 25 changed records', 35, (each) => ({ ...each, title: null }), ['gone report.title']],
    ['no field in all records but three', 3, untitled, ['gone report.title']],
    ['no value in a column that few records have', 35, without('closed_at'), []],
    ['no list in 25 changed records', 35, without('labels'), ['gone report_labels.value']],
  ])('after an incremental run: %s', async ([, from, change, log]) => {
    const service = await changingService(database, 60);
    await service.run('backfill');
    service.edit(from, change);
    await service.run('sync');
    expect(await service.log()).toEqual(log);
  });
});
