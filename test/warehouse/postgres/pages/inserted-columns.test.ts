import { expect, it } from 'vitest';
import { insertedColumns } from '../../../../src/warehouse/postgres/pages/inserted-columns.ts';

const columns = [{ name: 'on', path: ['on'], type: 'timestamp' as const }];

it('are the key, what a row of a resource is stamped with, and the columns of the source, in this order', () => {
  const root = insertedColumns({ name: 'content', path: [], key: ['id'], columns });
  expect(root.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'id text',
    '_hash text',
    '_version bigint',
    '_synced_at timestamptz',
    'on timestamptz',
  ]);
  const list = insertedColumns({ name: 'l', path: ['a', '[]'], key: ['content_id', 'position'], columns });
  expect(list.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'content_id text',
    'position bigint',
    'on timestamptz',
  ]);
});
