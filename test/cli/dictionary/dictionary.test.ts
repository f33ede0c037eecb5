import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Dictionary, DictionaryTable } from '../../../src/server/dictionary/read-dictionary.ts';
import { eitherDatabase, type TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { ownStage } from '../../support/own-stage.ts';

const RELATIONS = {
  'analytics.content_id': 'content.id',
  'content.seo_image_id': 'images.id',
};

const GENERATED = { content: 30, images: 10, analytics: 40 };

type Printed = Omit<Dictionary, 'tables'> & { tables: (DictionaryTable & { rows: number | null })[] };

/** A copy of the sandbox's sample. */
async function copied(database: TestDatabase): Promise<Journey> {
  const stage = await journey({ database, sandbox: { generate: GENERATED }, profile: { relations: RELATIONS } });
  expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
  return stage;
}

async function printed(stage: Pick<Journey, 'command'>): Promise<Printed> {
  const { code, stdout } = await stage.command('dictionary', '--json');
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

describe.for(eitherDatabase(import.meta.filename))('content-sync dictionary on $name', (database) => {
  it('says what is in the warehouse, and how the tables hang together', async () => {
    const stage = await copied(database);
    const { tables, relations, freshness } = await printed(stage);
    const live = tables.find(({ name }) => name === 'content_live');
    const counted = await stage.read((db) =>
      db.prepare<[], number>('SELECT count(*) FROM content WHERE _deleted_at IS NULL').pluck().get(),
    );
    expect(live).toMatchObject({ kind: 'live', resource: 'content', table: 'content', rows: counted });
    expect(live?.columns.find(({ name }) => name === 'seo_image_id')).toMatchObject({
      type: 'text',
      source: 'seo.image.id',
      references: 'images.id',
      isKey: false,
      first_seen: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
    expect(
      relations.map(({ from, to, kind }) => `${from.table}.${from.column} ${to.table}.${to.column} ${kind}`),
    ).toEqual(
      expect.arrayContaining([
        'analytics.content_id content.id reference',
        'content.seo_image_id images.id reference',
        'content_authors.content_id content.id child',
        'content_tags.content_id content.id child',
      ]),
    );
    expect(freshness.map(({ resource }) => resource)).toEqual(['analytics', 'content', 'images']);
  });

  it('writes one HTML page, to stdout or a file', async () => {
    const stage = await copied(database);
    const page = /^<!doctype html>[^]*id="blog-relations"[^]*<\/html>\n?$/;
    expect((await stage.command('dictionary')).stdout).toMatch(page);
    const file = path.join(stage.folder, 'tables.html');
    expect(await stage.command('dictionary', '--html', '--out', file)).toMatchObject({ code: 0, stdout: '' });
    expect(readFileSync(file, 'utf8')).toMatch(page);
    expect(await stage.command('dictionary', '--out', stage.folder)).toMatchObject({ code: 2 });
    for (const other of ['--json', '--md']) {
      expect(await stage.command('dictionary', '--html', other)).toMatchObject({ code: 2 });
    }
  });

  it('makes no warehouse where there is none', async () => {
    const stage = await journey({ database, isNew: true });
    const { code, stderr } = await stage.command('dictionary');
    expect([code, stderr]).toEqual([2, expect.stringContaining('warehouse_missing')]);
    expect(existsSync(stage.file)).toBe(false);
  });

  it('escapes what the service made up', async () => {
    const nasty = '`|</td><img src=x onerror=alert(1)>](http://evil.example) ```';
    const stage = await ownStage(database, [{ id: '1', [nasty]: 'x', list: [{ [nasty]: 1 }] }]);
    const { tables } = await printed(stage);
    const column = tables.flatMap(({ columns }) => columns).find(({ source }) => source?.includes('onerror') === true);
    expect(column?.name).toMatch(/^[a-z0-9_]+$/);
    const { stdout: html } = await stage.command('dictionary', '--html');
    expect(html).not.toContain('<img');
    expect(html).toContain('&lt;img src=x');
  });
});
