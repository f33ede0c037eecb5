import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { asOtherClient, eitherDatabase, type TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { ownStage } from '../../support/own-stage.ts';
import { asOther } from '../../support/temp-warehouse.ts';

const sourcesFile = z.object({
  sources: z.array(
    z.looseObject({
      name: z.string(),
      schema: z.string(),
      tables: z.array(
        z.looseObject({
          name: z.string(),
          description: z.string(),
          config: z.looseObject({ loaded_at_field: z.string(), freshness: z.unknown() }).optional(),
          columns: z.array(z.looseObject({ name: z.string(), data_type: z.string() })),
        }),
      ),
    }),
  ),
});

/** The one source of the printed file. */
async function exported(stage: Pick<Journey, 'command'>) {
  const { code, stdout } = await stage.command('export', 'dbt');
  expect(code).toBe(0);
  const [source] = sourcesFile.parse(parse(stdout)).sources;
  if (source === undefined) throw new Error('no source is printed');
  return { ...source, table: (name: string) => source.tables.find((each) => each.name === name) };
}

const hours = (count: number) => ({ count, period: 'hour' });
const days = (count: number) => ({ count, period: 'day' });

async function answer(database: TestDatabase, address: string, query: string): Promise<unknown[]> {
  if (database.name === 'postgres') return asOtherClient(address, async (db) => (await db.query(query)).rows);
  return asOther(address.slice('sqlite:'.length), (db) => db.prepare(query).all());
}

describe.for(eitherDatabase(import.meta.filename))('content-sync export dbt on $name', (database) => {
  it('describes the columns of each view, and asks how fresh the copy is', async () => {
    const stage = await journey({ database, sandbox: { generate: { content: 30, images: 10, analytics: 40 } } });
    expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
    const source = await exported(stage);
    const names = source.tables.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['content_live', 'content_tags_live', 'content_summary', 'calendar']));
    for (const { name, columns } of source.tables) {
      const [row] = await answer(
        database,
        stage.address,
        `SELECT t.* FROM (SELECT 1 AS one) AS o LEFT JOIN "${name}" AS t ON true LIMIT 1`,
      );
      expect([name, Object.keys(Object(row))]).toEqual([name, columns.map((column) => column.name)]);
    }
    // As dbt asks it.
    const field = source.table('content_live')?.config?.loaded_at_field.replace(`"${source.schema}".`, '') ?? '';
    const [fresh] = await answer(database, stage.address, `SELECT max(${field}) AS at FROM content_live`);
    expect(JSON.stringify(fresh)).toMatch(/\d{4}-\d\d-\d\d/);
    expect(source.table('calendar')?.config).toBeUndefined();
    const file = path.join(stage.folder, 'sources.yml');
    const printed = await stage.command('export', 'dbt');
    expect(await stage.command('export', 'dbt', '--out', file)).toMatchObject({ code: 0, stdout: '' });
    expect(readFileSync(file, 'utf8')).toBe(printed.stdout);
    expect(await stage.command('export', 'dbt', '--out', stage.folder)).toMatchObject({ code: 2 });
  });

  it('expects runs as often as the schedule has them', async () => {
    const stage = await ownStage(database, [{ id: '1', updated_at: '2026-01-01T00:00:00Z' }]);
    const cases: [schedule: object, warn: object, error: object][] = [
      [{}, hours(1), hours(3)],
      [{ incremental: '0 */4 * * *' }, hours(8), days(1)],
      [{ incremental: null, full: '0 3 * * *' }, days(2), days(6)],
      [{ incremental: '*/10 8-18 * * 1-5', full: null }, days(5), days(15)],
      [{ incremental: null, full: null }, days(1), days(3)],
    ];
    for (const [schedule, warn_after, error_after] of cases) {
      stage.setSource({ base_url: stage.service.url, resources: ['content'], schedule });
      const view = (await exported(stage)).table('content_live');
      expect(view?.config?.freshness).toEqual({ warn_after, error_after });
    }
  });

  it('lets no name or text of the service be run by dbt', async () => {
    const nasty = "{{ env_var('HOME') }} {% raw %} {# x #} 'y' \"z\"";
    const content = { description: `Posts ${nasty}`, fields: { title: { description: nasty } } };
    const records = [{ id: '1', title: 'a', [nasty]: 'x', Straße: 1, 文字: 2 }];
    const { tables, table } = await exported(await ownStage(database, records, { content }));
    const text = JSON.stringify(tables);
    expect(text).toContain('env_var');
    expect(text).not.toMatch(/\{[{%#]|[}%#]\}(?=[^}\]",]*HOME)/);
    expect(table('content_live')?.columns.find(({ name }) => name === '文字')).toMatchObject({ quote: true });
  });
});
