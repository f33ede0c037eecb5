import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader } from '../../src/load/page-loader.ts';
import type { TableShape } from '../../src/model/table.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/database/state/owned-resource.ts';
import { dropStatements } from '../../src/database/state/stored-rows.ts';
import { DATABASES, type OpenWarehouse, warehouseOn } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';
import { softDelete } from '../support/soft-delete.ts';

const WAREHOUSE = path.join(import.meta.dirname, '../../src/database');
/** What statements begin with, and their parts: who writes such a text means SQL. */
const SQL = /\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|SET|COPY|ALTER|CREATE|DROP|CASE|CAST|AS|ORDER|COMMENT)\b/;
const QUOTED = /`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g;

/** The names that our statements give to tables and rows, and those that the databases have for them. */
function sqlAliases(): string[] {
  const named = statementTexts().flatMap((text) =>
    [...text.matchAll(/\bAS "?([a-z_][a-z0-9_]*)/g)].map(([, name = '']) => name),
  );
  return [...new Set([...named, 'excluded', 'old', 'new', 'r', 't', 'asked'])]
    .filter((name) => !name.startsWith('_'))
    .toSorted();
}

function statementTexts(): string[] {
  const files = globSync('{*,{postgres,sqlite,copy}/**/*}.ts', { cwd: WAREHOUSE });
  const texts = files.flatMap((file) => readFileSync(path.join(WAREHOUSE, file), 'utf8').match(QUOTED) ?? []);
  return texts.filter((text) => SQL.test(text)).map((text) => text.replaceAll(/\$\{[^}]*\}/g, ' '));
}

const OLD_TIME = '"2024-01-01T10:00:00+02:00"';

interface Held {
  load: (...texts: string[]) => Promise<unknown>;
  shape: () => readonly TableShape[];
  /** Marks the record as deleted, and then removes it. */
  remove: (key: string) => Promise<[buried: string[], purged: number]>;
}

async function held({ warehouse }: OpenWarehouse, resource: string, id: string): Promise<Held> {
  const owned = await ownResources(warehouse, systemClock).acquire(resource);
  onTestFinished(() => owned.release());
  const profile = profileWith({ id, updated: null, history: 'all' });
  const loader = await openPageLoader(
    {
      warehouse,
      owned,
      ...profilesFor(profile, [resource]),
      runId: 'run',
      clock: systemClock,
      signal: new AbortController().signal,
    },
    { acceptsOlder: true },
  );
  let at = 1_000;
  const shape = (): readonly TableShape[] => owned.shape?.tables ?? [];
  return {
    shape,
    load: (...texts) => loader.load({ records: recordsOf(texts), requestedAt: (at += 1_000) }, () => []),
    remove: async (key) => {
      const [table, ...children] = shape();
      if (table === undefined) throw new Error('no table');
      const at = '2024-01-01 00:00:00.000';
      const buried = await softDelete(warehouse, owned, { keys: [key], at, history: 'all' });
      const keys = await warehouse.rows.keysDeletedBefore(table, '2025-01-01 00:00:00.000', 9);
      await warehouse.apply(dropStatements(warehouse, { resource, table, children, keys }), owned.lease());
      return [buried, keys.length];
    },
  };
}

/** The rows of a table by its key, each with its cells by the last key of their field. */
async function fieldsOf({ rows }: OpenWarehouse, table: TableShape): Promise<Record<string, unknown>[]> {
  const found = await rows(`SELECT * FROM "${table.name}" ORDER BY ${table.key.map((_, at) => at + 1).join()}`);
  return found.map((row) =>
    Object.fromEntries(table.columns.map(({ name, path }) => [path.at(-1) ?? '', unspaced(row[name])])),
  );
}

/** Postgres writes JSON with spaces. */
function unspaced(cell: unknown): unknown {
  return typeof cell === 'string' && cell.startsWith('{') ? cell.replaceAll(' ', '') : cell;
}

describe.for(DATABASES)('a name of a table or row in our statements, on $name', (database) => {
  it('F217 may be the name of a resource, of its id and of what is in it, if it stands for a table', async () => {
    const opened = await warehouseOn(database);
    const { warehouse } = opened;
    for (const name of ['excluded', 'key', 'r', 's', 't']) {
      expect(sqlAliases()).toContain(name);
      const { load, shape, remove } = await held(opened, name, name);
      const record = (id: string, value: string): string =>
        `{"${name}":"${id}","other":${value},"list":[{"${name}":${value}}]}`;
      await load(record('a', OLD_TIME), record('b', OLD_TIME));
      await load(record('a', '"soon"'));
      const [table = raise(), list = raise()] = shape();
      const wanted = ['soon', OLD_TIME.slice(1, -1)];
      expect(await fieldsOf(opened, table)).toEqual(wanted.map((cell) => ({ other: cell })));
      expect(await fieldsOf(opened, list)).toEqual(wanted.map((cell) => ({ [name]: cell })));
      expect(await warehouse.rows.keysAfter(table, '', 9)).toEqual(['a', 'b']);
      expect((await warehouse.rows.liveSample(table, name, 5)).toSorted()).toEqual(['a', 'b']);
      expect((await warehouse.rows.stored(table, ['a'], table.columns.slice(0, 1))).get('a')).toMatchObject({
        version: 2,
        updated: 'soon',
      });
      expect(await remove('a')).toEqual([['a'], 1]);
      expect([await warehouse.rows.count(name), await warehouse.rows.countDeleted(name, '')]).toEqual([1, 0]);
    }
  });
});

function raise(): never {
  throw new Error('not there');
}
