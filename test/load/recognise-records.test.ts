import { describe, expect, it } from 'vitest';
import { createRecogniser } from '../../src/load/recognise-records.ts';
import { DATABASES, USUAL, warehouseOn } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';
import { profileWith, type ProfileChoice } from '../support/page-records.ts';

const post = (id: string, title: string, at = '2026-11-20T12:00:00Z'): string =>
  `{"by":{"id":"x"},"id":"${id}","title":"${title}","updated_at":"${at}"}`;

describe.for(DATABASES)('records that are stored as they come, on $name', (database) => {
  it('are recognised by their source, and no others', async () => {
    const { warehouse } = await warehouseOn(database);
    const { context, load } = await loading(warehouse, { profile: { history: 'all', updated: 'updated_at' } });
    await load([post('1', 'a'), post('2', 'b'), post('3', 'c'), post('4', 'd'), post('5', 'e')]);
    await load([post('5', 'e', '2026-11-21T12:00:00Z')]);
    await warehouse.softDelete({
      resource: 'content',
      history: 'all',
      table: context.owned.shape?.tables[0] ?? { name: '', path: [], key: [], columns: [] },
      children: [],
      gone: [{ key: '4', confirmedAt: '2099-01-01 00:00:00' }],
      lease: context.owned.lease(),
      statements: [],
    });
    const sources = [
      post('1', 'a'),
      post('2', 'changed'),
      post('new', 'c'),
      // Deleted here.
      post('4', 'd'),
      // An older state of it.
      post('5', 'e'),
      // The members of 3 in another order: what is found first is no key of its own.
      '{"id":"3","by":{"id":"x"},"title":"c","updated_at":"2026-11-20T12:00:00Z"}',
      post('3', 'c'),
    ];
    const buffers = sources.map((source) => Buffer.from(source));
    const unread = { bytes: Buffer.alloc(0), borders: [], isPlain: true, values: [], read: () => undefined };
    const found = await createRecogniser(context)?.recognise({ ...unread, sources: () => buffers }, 0);
    expect(found?.map(({ partial }) => partial)).toEqual([
      { id: '1', updated_at: '2026-11-20T12:00:00Z' },
      null,
      null,
      null,
      null,
      null,
      { id: '3', updated_at: '2026-11-20T12:00:00Z' },
    ]);
    expect(new Set(found?.map(({ hash }) => hash)).size).toBe(sources.length);
  });
});

describe('createRecogniser', () => {
  it.each<[string, ProfileChoice]>([
    ['their bodies are not kept', { history: 'none' }],
    ['a walk needs more of them than plain fields', { history: 'all', unwrap: [{ only: '$oid' }] }],
  ])('reads all records if %s', async (_, choice) => {
    const { warehouse } = await warehouseOn(USUAL);
    const { context } = await loading(warehouse, { profile: { history: 'all' } });
    expect(createRecogniser({ ...context, profile: profileWith(choice) })).toBeNull();
  });
});
