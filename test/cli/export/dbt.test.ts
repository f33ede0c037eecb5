import { appendFileSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { asOtherClient, eitherDatabase, type TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { ownStage } from '../../support/own-stage.ts';
import { asOther } from '../../support/temp-warehouse.ts';

const RELATIONS = { 'analytics.content_id': 'content.id', 'content.seo_image_id': 'images.id' };
const GENERATED = { content: 30, images: 10, analytics: 40 };

interface Exported {
  folder: string;
  stage: Pick<Journey, 'command' | 'folder' | 'address'>;
  /** Exports once more. */
  again(...args: string[]): Promise<{ written: string[]; unchanged: string[]; kept: string[]; removed: string[] }>;
  text(name: string): string;
}

async function exported(stage: Exported['stage']): Promise<Exported> {
  const folder = path.join(stage.folder, 'dbt');
  const again: Exported['again'] = async (...args) => {
    const { code, stdout } = await stage.command('export', 'dbt', folder, '--json', ...args);
    expect(code).toBe(0);
    return JSON.parse(stdout);
  };
  await again();
  return { folder, stage, again, text: (name) => readFileSync(path.join(folder, name), 'utf8') };
}

async function copied(database: TestDatabase): Promise<Exported> {
  const stage = await journey({ database, sandbox: { generate: GENERATED }, profile: { relations: RELATIONS } });
  expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
  return exported(stage);
}

const columns = z.array(z.looseObject({ name: z.string(), data_tests: z.array(z.unknown()).optional() }));
const sourcesFile = z.object({
  sources: z.array(
    z.looseObject({
      name: z.string(),
      schema: z.string(),
      tables: z.array(
        z.looseObject({
          name: z.string(),
          identifier: z.string().optional(),
          config: z.looseObject({ loaded_at_field: z.string(), freshness: z.unknown() }).optional(),
          columns,
        }),
      ),
    }),
  ),
});

/** What dbt would send for a model or test: its places filled in, on this database. */
function rendered(text: string, project: Exported): string {
  const { sources } = sourcesFile.parse(parse(project.text('models/sources.yml')));
  return text
    .replace(/\{#.*?#\}/g, '')
    .replace(/\{\{ source\('(\w+)', '(\w+)'\) \}\}/g, (_, source: string, table: string) => {
      const found = sources.find(({ name }) => name === source)?.tables.find(({ name }) => name === table);
      if (found === undefined) throw new Error(`there is no ${source}.${table}`);
      return `"${found.identifier ?? found.name}"`;
    })
    .replace(/\{\{ ref\('(\w+)'\) \}\}/g, (_, model: string) => {
      return `(${rendered(project.text(`models/staging/${model}.sql`), project)}) AS ${model}`;
    });
}

const hours = (count: number) => ({ count, period: 'hour' });
const days = (count: number) => ({ count, period: 'day' });

async function answer(database: TestDatabase, { stage }: Exported, query: string): Promise<unknown[]> {
  if (database.name === 'postgres') return asOtherClient(stage.address, async (db) => (await db.query(query)).rows);
  return asOther(stage.address.slice('sqlite:'.length), (db) => db.prepare(query).all());
}

describe.for(eitherDatabase(import.meta.filename))('content-sync export dbt on $name', (database) => {
  it('has models and tests that run, with the columns that it tells of', async () => {
    const project = await copied(database);
    const [source] = sourcesFile.parse(parse(project.text('models/sources.yml'))).sources;
    const live = source?.tables.filter(({ name }) => name.endsWith('_live')) ?? [];
    expect(live.map(({ name }) => name)).toContain('content_tags_live');
    for (const { name, columns: told } of live) {
      const model = project.text(`models/staging/stg_blog__${name.replace(/_live$/, '')}.sql`);
      const [row] = await answer(database, project, rendered(model, project));
      expect([name, Object.keys(Object(row))]).toEqual([name, told.map((column) => column.name)]);
    }
    const tests = readdirSync(path.join(project.folder, 'tests'));
    expect(tests).toContain('unique_key_of_stg_blog__content_tags.sql');
    for (const name of tests) {
      expect(await answer(database, project, rendered(project.text(`tests/${name}`), project))).toEqual([]);
    }
  });

  it('tests keys and references, and asks how fresh the copy is', async () => {
    const project = await copied(database);
    const [source] = sourcesFile.parse(parse(project.text('models/sources.yml'))).sources;
    const table = (name: string) => source?.tables.find((each) => each.name === name);
    const testsOf = (name: string, column: string): unknown =>
      table(name)?.columns.find((each) => each.name === column)?.data_tests;
    expect(testsOf('content_live', 'id')).toEqual(['unique', 'not_null']);
    expect(testsOf('content_tags_live', 'position')).toEqual(['not_null']);
    const relation = { to: `source('blog', 'content_live')`, field: 'id' };
    expect(testsOf('analytics_live', 'content_id')).toEqual([
      { relationships: { arguments: relation, config: { severity: 'warn' } } },
    ]);
    expect(testsOf('content_tags_live', 'content_id')).toEqual([
      'not_null',
      { relationships: { arguments: relation } },
    ]);
    // As dbt asks it.
    const field = table('content_live')?.config?.loaded_at_field.replace(`"${source?.schema}".`, '') ?? '';
    const [fresh] = await answer(database, project, `SELECT max(${field}) AS at FROM content_live`);
    expect(JSON.stringify(fresh)).toMatch(/\d{4}-\d\d-\d\d/);
  });

  it('expects runs as often as the schedule has them', async () => {
    const stage = await ownStage(database, [{ id: '1', updated_at: '2026-01-01T00:00:00Z' }]);
    const project = await exported(stage);
    const cases: [schedule: object, warn: object, error: object][] = [
      [{}, hours(1), hours(3)],
      [{ incremental: '0 */4 * * *' }, hours(8), days(1)],
      [{ incremental: null, full: '0 3 * * *' }, days(2), days(6)],
      [{ incremental: '*/10 8-18 * * 1-5', full: null }, days(5), days(15)],
      [{ incremental: null, full: null }, days(1), days(3)],
    ];
    for (const [schedule, warn_after, error_after] of cases) {
      stage.setSource({ base_url: stage.service.url, resources: ['content'], schedule });
      await project.again();
      const [source] = sourcesFile.parse(parse(project.text('models/sources.yml'))).sources;
      const view = source?.tables.find(({ name }) => name === 'content_live');
      expect(view?.config?.freshness).toEqual({ warn_after, error_after });
    }
  });

  it('writes the same again, keeps what was changed by hand, and takes away what is no longer there', async () => {
    const project = await copied(database);
    const before = await project.again();
    expect(before).toMatchObject({ written: [], kept: [], removed: [] });
    const mine = 'models/staging/stg_blog__content.sql';
    const others = 'models/staging/my_own.sql';
    appendFileSync(path.join(project.folder, mine), '-- mine\n');
    writeFileSync(path.join(project.folder, others), 'select 1\n');
    rmSync(path.join(project.folder, 'models/sources.yml'));
    // As a git on Windows checks files out.
    const crlf = path.join(project.folder, 'dbt_project.yml');
    writeFileSync(crlf, readFileSync(crlf, 'utf8').replaceAll('\n', '\r\n'));
    // What an earlier export left for a table that is gone.
    const [images, gone] = ['models/staging/stg_blog__images.sql', 'models/staging/stg_blog__gone.sql'];
    writeFileSync(path.join(project.folder, gone), project.text(images));
    const hashes: Record<string, string> = JSON.parse(project.text('.content-sync-export.json'));
    writeFileSync(
      path.join(project.folder, '.content-sync-export.json'),
      JSON.stringify({ ...hashes, [gone]: hashes[images] }),
    );
    expect(await project.again()).toMatchObject({
      written: ['models/sources.yml'],
      kept: [mine],
      removed: [gone],
    });
    expect(project.text(mine)).toMatch(/-- mine\n$/);
    expect(existsSync(path.join(project.folder, others))).toBe(true);
    expect(await project.again('--force')).toMatchObject({ written: [mine], kept: [] });
    expect(project.text(mine)).not.toContain('-- mine');
  });

  it('lets no name or text of the service be run by dbt', async () => {
    const nasty = "{{ env_var('HOME') }} {% raw %} {# x #} 'y' \"z\"";
    const content = { description: `Posts ${nasty}`, fields: { title: { description: nasty } } };
    const records = [{ id: '1', title: 'a', [nasty]: 'x', Straße: 1, 文字: 2 }];
    const project = await exported(await ownStage(database, records, { content }));
    const text = JSON.stringify(parse(project.text('models/sources.yml')));
    expect(text).toContain('env_var');
    expect(text).not.toMatch(/\{[{%#]|[}%#]\}(?=[^}\]",]*HOME)/);
    const sql = rendered(project.text('models/staging/stg_blog__content.sql'), project);
    expect(await answer(database, project, sql)).toHaveLength(1);
    const [source] = sourcesFile.parse(parse(project.text('models/sources.yml'))).sources;
    const view = source?.tables.find((table) => table.name === 'content_live');
    expect(view?.columns.find(({ name }) => name === '文字')).toMatchObject({ quote: true });
  });
});
