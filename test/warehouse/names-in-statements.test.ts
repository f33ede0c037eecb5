import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader } from '../../src/load/page-loader.ts';
import type { TableShape } from '../../src/model/table.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { dropStatements, keysDeletedBefore } from '../../src/state/stored-rows.ts';
import { DATABASES, type OpenWarehouse, warehouseOn } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';
import { softDelete } from '../support/soft-delete.ts';

const WAREHOUSE = path.join(import.meta.dirname, '../../src/warehouse');
const WORD = /[a-z_][a-z0-9_]*/gi;

/** What statements begin with, and their parts: who writes such a text means SQL. */
const SQL = /\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|SET|COPY|ALTER|CREATE|DROP|CASE|CAST|AS|ORDER|COMMENT)\b/;
const QUOTED = /`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g;

/** The words of https://www.sqlite.org/lang_keywords.html. */
const SQLITE_WORDS = `abort action add after all alter always analyze and as asc attach autoincrement before begin
  between by cascade case cast check collate column commit conflict constraint create cross current current_date
  current_time current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end
  escape except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
  groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key
  last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others outer
  over partition plan pragma preceding primary query raise range recursive references regexp reindex release rename
  replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to transaction
  trigger unbounded union unique update using vacuum values view virtual when where window with without`.split(/\s+/);

/** What `pg_get_keywords()` of Postgres 17 has beyond them, and what its statements have learned since. */
const POSTGRES_WORDS = `absent absolute access admin aggregate also analyse any array asensitive assertion assignment
  asymmetric at atomic attribute authorization backward bigint binary bit boolean both breadth cache call called
  cascaded catalog chain char character characteristics checkpoint class close cluster coalesce collation columns comment
  comments committed compression concurrently conditional configuration connection constraints content continue
  conversion copy cost csv cube current_catalog current_role current_schema current_user cursor cycle data day deallocate
  dec decimal declare defaults definer delimiter delimiters depends depth dictionary disable discard document domain
  double empty enable encoding encrypted enforced enum error escape event excluding execute expression extension external
  extract false family finalize float force format forward freeze function functions global grant granted greatest
  grouping handler header hold hour identity ilike immutable implicit import include including increment indent indexes
  inherit inherits inline inout input insensitive int integer interval invoker isolation json json_array json_arrayagg
  json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value keep keys label
  language large lateral leading leakproof least level listen load local localtime localtimestamp location lock locked
  logged lsn mapping maxvalue merge merge_action method minute minvalue mode month move name names national nchar nested
  new next nfc nfd nfkc nfkd none normalize normalized nowait nullif numeric object objects off oids old omit only
  operator option options ordinality out overlaps overlay overriding owned owner parallel parameter parser partial passing
  password path period placing plans policy position precision prepare prepared preserve prior privileges procedural
  procedure procedures program publication quote quotes read real reassign refresh relative repeatable replica reset
  return returns revoke role rollup routine routines rule scalar schema schemas scroll search second security sequence
  sequences serializable server session session_user setof sets share show similar simple skip smallint snapshot some
  source split sql stable standalone start statement statistics stdin stdout storage stored strict string strip
  subscription substring support symmetric sysid system system_user tables tablesample tablespace target template text
  time timestamp trailing transform treat trim true truncate trusted type types uescape uncommitted unconditional
  unencrypted unknown unlisten unlogged until user vacuum valid validate validator value varchar variadic varying verbose
  version views volatile whitespace within work wrapper write xml xmlattributes xmlconcat xmlelement xmlexists xmlforest
  xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable year yes zone`.split(/\s+/);

/** Every word that a statement of ours may hold: names, aliases, functions and types, and all keywords. */
function sqlWords(): string[] {
  const letters = Array.from({ length: 26 }, (_, at) => String.fromCharCode(97 + at));
  const words = [
    ...letters,
    ...SQLITE_WORDS,
    ...POSTGRES_WORDS,
    ...statementTexts().flatMap((text) => text.match(WORD) ?? []),
  ];
  return [...new Set(words.map((word) => word.toLowerCase()))].filter((word) => word !== 'id').toSorted();
}

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
  const files = globSync('{postgres,sqlite,copy}/**/*.ts', { cwd: WAREHOUSE });
  const texts = files.flatMap((file) => readFileSync(path.join(WAREHOUSE, file), 'utf8').match(QUOTED) ?? []);
  return texts.filter((text) => SQL.test(text)).map((text) => text.replaceAll(/\$\{[^}]*\}/g, ' '));
}

const NAMES_PER_TABLE = 195;

/** Source texts that take a column through its types, and what stands in its rows in the end. */
const DRIFT = {
  values: ['0.12345678901234567890', '"x"', '{"a":1}'],
  cells: ['0.12345678901234567890', '"x"', '{"a":1}'],
};
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
      const keys = await keysDeletedBefore(warehouse, table, '2025-01-01 00:00:00.000', 9);
      await warehouse.apply(dropStatements(warehouse, { resource, table, children, keys }), owned.lease());
      return [buried, keys.length];
    },
  };
}

function chunked(names: readonly string[], size = NAMES_PER_TABLE): string[][] {
  const length = Math.ceil(names.length / size);
  return Array.from({ length }, (_, at) => names.slice(at * size, (at + 1) * size));
}

/** A member for each name. */
function members(names: readonly string[], value: string): string {
  return names.map((name) => `"${name}":${value}`).join(',');
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

function allOf(names: readonly string[], cell: unknown): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, cell]));
}

describe.for(DATABASES)('every word of a statement on $name', (database) => {
  it('may be the name of a field, whatever becomes of it', async () => {
    const opened = await warehouseOn(database);
    const words = sampled(sqlWords(), 12, 6 * DATABASES.indexOf(database));
    for (const [at, names] of chunked(words).entries()) {
      const { load, shape, remove } = await held(opened, `of_${at}`, 'id');
      for (const [id, value] of DRIFT.values.entries()) await load(`{"id":${id},${members(names, value)}}`);
      const [table = raise()] = shape();
      expect(await fieldsOf(opened, table)).toEqual(DRIFT.cells.map((cell) => allOf(names, cell)));
      // Over what stands there, and away.
      await load(`{"id":0,${members(names, 'true')}}`, `{"id":9,${members(names, 'null')}}`);
      const cells = ['true', ...DRIFT.cells.slice(1), null];
      expect(await fieldsOf(opened, table)).toEqual(cells.map((cell) => allOf(names, cell)));
      expect(await remove('0')).toEqual([['0'], 1]);
      expect(await fieldsOf(opened, table)).toEqual(cells.slice(1).map((cell) => allOf(names, cell)));
    }
  });

  it('may be the name of a field, of one in an object and in a list, if it is one that we give', async () => {
    const opened = await warehouseOn(database);
    // Each stands for two columns.
    for (const [chunk, names] of chunked(
      sampled(sqlAliases(), 4, 2 * DATABASES.indexOf(database)).filter((name) => name !== 'id'),
      Math.floor(NAMES_PER_TABLE / 2),
    ).entries()) {
      const { load, shape } = await held(opened, `content_${chunk}`, 'id');
      const record = (id: number, value: string): string =>
        `{"id":${id},${members(names, value)},"in":{${members(names, value)}},"list":[{${members(names, value)}},null]}`;
      await load(record(1, OLD_TIME));
      await load(record(2, '"soon"'));
      await load(record(2, '"later"'));
      const [table = raise(), list = raise()] = shape();
      const wanted = [OLD_TIME.slice(1, -1), 'later'].map((cell) => allOf(names, cell));
      expect(table.columns).toHaveLength(2 * names.length);
      expect(await fieldsOf(opened, table)).toEqual(wanted);
      expect(await fieldsOf(opened, list)).toEqual(wanted.flatMap((row) => [row, allOf(names, null)]));
    }
  });

  it('F217 may be the name of a resource, of its id and of what is in it, if it stands for a table', async () => {
    const opened = await warehouseOn(database);
    const { warehouse } = opened;
    for (const name of ['excluded', 'key', 'r', 'sample', 't']) {
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
      expect(await warehouse.keysAfter(table, '', 9)).toEqual(['a', 'b']);
      expect((await warehouse.liveSample(table, name, 5)).toSorted()).toEqual(['a', 'b']);
      expect((await warehouse.stored(table, ['a'], table.columns.slice(0, 1))).get('a')).toMatchObject({
        version: 2,
        updated: 'soon',
      });
      expect(await remove('a')).toEqual([['a'], 1]);
      expect([await warehouse.count(name), await warehouse.countDeleted(name, '')]).toEqual([1, 0]);
    }
  });
});

function raise(): never {
  throw new Error('not there');
}
