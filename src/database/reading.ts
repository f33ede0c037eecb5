import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Cell, Column, TableShape } from '../model/table.ts';
import type { OwnTables, TimestampText } from './own-tables.ts';
import type { ViewDialect } from './view-dialect.ts';

/** Two days or times as texts, the earlier one first. */
type TimeSpan = readonly [first: string, last: string];

/** The state of a row that is already there. */
export interface StoredRow {
  hash: string;
  version: number;
  syncedAt: TimestampText;
  /** Null for a live row. */
  deletedAt: TimestampText | null;
  /** The cell of the column asked for as `updated`; null if there is none. */
  updated: Cell;
}

/** Questions about the rows of copied tables, which are alike on all databases. */
export interface RowQueries {
  /** A table as a statement of `own` names it. */
  readonly named: (table: string) => RawBuilder<unknown>;
  /**
   * Rows already there among `keys`, by key, with the first of the cells in `updated` that is not null. Where these are
   * not of one type it is a text, and a moment has its `Z`.
   */
  stored(table: TableShape, keys: readonly string[], updated: readonly Column[]): Promise<Map<string, StoredRow>>;
  /** Names of all tables and views that there are, ours and others', in lower case. */
  tableNames(): Promise<Set<string>>;
  /** True if the integer column holds a value that a double would change. */
  holdsBeyondDouble(table: string, column: string): Promise<boolean>;
  /** First and last time in columns of times, of those from one day (`YYYY-MM-DD`) on and before another; null for none. Reads the table. */
  timeSpan(table: TableShape, columns: readonly Column[], within: TimeSpan): Promise<TimeSpan | null>;
  /** Keys of all rows of a resource's own table, deleted ones too, in the database's order: those behind `after`. */
  keysAfter(table: TableShape, after: string, limit: number): Promise<string[]>;
  /**
   * Keys of live rows by the first of their cells in these columns that is not null; those without any are left out. Of
   * each column up to `limit`, the last ones first.
   */
  latestKeys(table: TableShape, columns: readonly Column[], limit: number): Promise<string[]>;
  /** Keys of a few live rows from both ends of the keys, that nothing suspects to be gone; may be fewer than there are. */
  liveSample(table: TableShape, resource: string, limit: number): Promise<string[]>;
  /** Live rows of which that first cell is no time. Reads the table if the database has no index on the columns. */
  countUntimed(table: TableShape, columns: readonly Column[]): Promise<number>;
  /** Live rows of a resource's own table; 0 if it is not there yet. */
  count(table: string): Promise<number>;
  /** All rows of a table; 0 if it is not there yet. */
  countAll(table: string): Promise<number>;
  /** Rows that were deleted at `since` or later ('' for all); 0 if the table is not there yet. */
  countDeleted(table: string, since: TimestampText): Promise<number>;
  /** How many references lead nowhere. */
  dangling(references: References): Promise<Dangling>;
}

/** Queries of commands that only read. Nothing is made, changed or migrated for them. */
export interface WarehouseReader extends RowQueries {
  readonly own: Kysely<OwnTables>;
  readonly dialect: ViewDialect;
  /** False if this user, or this role, may read it and not write. */
  isWritable(): Promise<boolean>;
  /** Version of the server and the role that reads, for people; null for a file. */
  server(): Promise<string | null>;
  close(): Promise<void>;
}

/** The parts of these queries in which the databases differ. */
interface RowQueryDialect {
  /** A copied table as a statement names it. */
  named: (table: string) => RawBuilder<unknown>;
  tableNames: () => Promise<Set<string>>;
  /** The column that tells in which order rows came. */
  place: 'rowid' | 'ctid';
  /** A moment as a column of ours holds it; '' lies before all of them. */
  moment: (text: string) => RawBuilder<unknown>;
  /** A moment as a UTC text. */
  momentText: (cell: RawBuilder<unknown>) => RawBuilder<unknown>;
  /** True for one of many texts. */
  isAmong: (text: RawBuilder<unknown>, texts: readonly string[]) => RawBuilder<unknown>;
  /** True for a text (or JSON) that does not begin as a time does. */
  isUntimed: (text: RawBuilder<unknown>) => RawBuilder<unknown>;
  /** A text as it is compared byte by byte. */
  compared: (text: RawBuilder<unknown>) => RawBuilder<unknown>;
}

/** Questions about the rows of copied tables, as single statements that are alike on all databases. */
export function rowQueries(own: Kysely<OwnTables>, dialect: RowQueryDialect): RowQueries {
  const { named, tableNames, moment, isUntimed } = dialect;
  const numberOf = async (query: RawBuilder<{ n: number }>): Promise<number> =>
    (await query.execute(own)).rows[0]?.n ?? 0;
  const keysOf = async (query: RawBuilder<{ key: string }>): Promise<string[]> =>
    (await query.execute(own)).rows.map(({ key }) => key);
  // A table of this name that somebody else made is not in our catalog of columns.
  const isThere = async (table: string): Promise<boolean> => {
    const columns = own.selectFrom('_sync_columns').select('column_name').where('table_name', '=', table);
    return (await columns.limit(1).executeTakeFirst()) !== undefined && (await tableNames()).has(table);
  };
  return {
    named,
    tableNames,
    holdsBeyondDouble: async (table, column) => {
      const [least, most] = [sql.lit(Number.MIN_SAFE_INTEGER), sql.lit(Number.MAX_SAFE_INTEGER)];
      const exact = sql`${sql.id(column)} BETWEEN ${least} AND ${most}`;
      const { rows } = await sql`SELECT 1 FROM ${named(table)} WHERE NOT (${exact}) LIMIT 1`.execute(own);
      return rows.length > 0;
    },
    stored: storedRows(own, dialect),
    timeSpan: timeSpan(own, dialect),
    // The index of the keys alone answers this: hardly a row is read.
    keysAfter: ({ name, key: [first = ''] }, after, limit) => {
      const key = sql.id(first);
      return keysOf(
        sql`SELECT ${key} AS "key" FROM ${named(name)} WHERE ${key} > ${after} ORDER BY ${key} LIMIT ${limit}`,
      );
    },
    // One question per column: they may be of types that cannot be compared.
    latestKeys: async ({ name, key: [first = ''] }, columns, limit) => {
      const keys = columns.map((column, index) => {
        const time = sql.id(column.name);
        const isLeft = columns.slice(0, index).map((former) => sql`AND ${sql.id(former.name)} IS NULL`);
        return keysOf(sql`SELECT ${sql.id(first)} AS "key" FROM ${named(name)} WHERE "_deleted_at" IS NULL
          AND ${time} IS NOT NULL ${sql.join(isLeft, sql` `)} ORDER BY ${time} DESC LIMIT ${limit}`);
      });
      return (await Promise.all(keys)).flat();
    },
    liveSample: liveSample(own, dialect),
    countUntimed: ({ name }, columns) => {
      // The deleted ones are left out while counting: no index of theirs is to be taken in place of that of the times.
      const live = sql`count(*) FILTER (WHERE "_deleted_at" IS NULL)`;
      return numberOf(sql`SELECT ${live} AS n FROM ${named(name)} WHERE ${isNoTime(columns, isUntimed)}`);
    },
    dangling: (references) => danglingIn(own, dialect, references),
    // All rows less the deleted ones: both are counted in an index, while counting the live ones would read the table.
    count: async (table) => {
      if (!(await isThere(table))) return 0;
      const deleted = sql`SELECT count(*) FROM ${named(table)} WHERE "_deleted_at" IS NOT NULL`;
      return numberOf(sql`SELECT (SELECT count(*) FROM ${named(table)}) - (${deleted}) AS n`);
    },
    countAll: async (table) => ((await isThere(table)) ? numberOf(sql`SELECT count(*) AS n FROM ${named(table)}`) : 0),
    countDeleted: async (table, since) => {
      if (!(await isThere(table))) return 0;
      return numberOf(sql`SELECT count(*) AS n FROM ${named(table)} WHERE "_deleted_at" IS NOT NULL
        AND "_synced_at" >= ${moment(since)}`);
    },
  };
}

function storedRows(own: Kysely<OwnTables>, dialect: RowQueryDialect): RowQueries['stored'] {
  const { named, momentText, isAmong } = dialect;
  return async ({ name, key: [key = ''] }, keys, updated) => {
    // Names that no column of a source can have.
    const { rows } = await sql<StoredRow & { _key: string }>`
      SELECT ${sql.id(key)} AS "_key", "_hash" AS "hash", "_version" AS "version",
        ${momentText(sql`"_synced_at"`)} AS "syncedAt", ${momentText(sql`"_deleted_at"`)} AS "deletedAt",
        ${firstCell(updated, dialect)} AS "updated"
      FROM ${named(name)} WHERE ${isAmong(sql.id(key), keys)}`.execute(own);
    const found = new Map(rows.map(({ _key, ...row }) => [_key, row]));
    // In the order of the keys, which callers give a meaning.
    const ordered = new Map<string, StoredRow>();
    for (const each of keys) {
      const row = found.get(each);
      if (row !== undefined) ordered.set(each, row);
    }
    return ordered;
  };
}

/** The first cell that is not null; of several types a text. */
function firstCell(columns: readonly Column[], { momentText }: RowQueryDialect): RawBuilder<unknown> {
  const isMixed = new Set(columns.map(({ type }) => type)).size > 1;
  const cells = columns.map(({ name, type }) => {
    const cell = type === 'timestamp' ? momentText(sql.id(name)) : sql`${sql.id(name)}`;
    if (!isMixed) return cell;
    return type === 'timestamp' ? sql`CAST(${cell} AS text) || 'Z'` : sql`CAST(${cell} AS text)`;
  });
  return cells.length > 1 ? sql`COALESCE(${sql.join(cells)})` : (cells[0] ?? sql`CAST(NULL AS text)`);
}

function liveSample(own: Kysely<OwnTables>, { named, place }: RowQueryDialect): RowQueries['liveSample'] {
  return async ({ name, key: [first = ''] }, resource, limit) => {
    const key = sql`t.${sql.id(first)}`;
    const suspected = sql`SELECT 1 FROM ${named('_sync_suspects')} AS s WHERE s."resource" = ${resource} AND s."record_id" = ${key}`;
    const counted = sql`row_number() OVER (ORDER BY t.${sql.id(place)}) - 1 AS "at", count(*) OVER () AS "all"`;
    const live = sql`SELECT ${key} AS "key", ${counted} FROM ${named(name)} AS t
      WHERE t."_deleted_at" IS NULL AND NOT EXISTS (${suspected})`;
    const isPlace = sql`"at" * ${sql.lit(limit)} % "all" < ${sql.lit(limit)}`;
    const sampled = sql<{ key: string }>`SELECT "key" FROM (${live}) AS live WHERE ${isPlace} ORDER BY "at"`;
    return (await sampled.execute(own)).rows.map((row) => row.key);
  };
}

function timeSpan(own: Kysely<OwnTables>, { named }: RowQueryDialect): RowQueries['timeSpan'] {
  return async ({ name }, columns, [from, to]) => {
    const ends = columns.flatMap(({ name: column }, at) => {
      const within = sql`FILTER (WHERE ${sql.id(column)} >= ${sql.lit(from)} AND ${sql.id(column)} < ${sql.lit(to)})`;
      const [first, last] = [sql.id(`first_${at}`), sql.id(`last_${at}`)];
      return [sql`min(${sql.id(column)}) ${within} AS ${first}`, sql`max(${sql.id(column)}) ${within} AS ${last}`];
    });
    if (ends.length === 0) return null;
    const asked = sql<Record<string, string | null>>`SELECT ${sql.join(ends)} FROM ${named(name)}`;
    const times = Object.values((await asked.execute(own)).rows[0] ?? {}).filter((time) => time !== null);
    const [first, last] = [times.toSorted()[0], times.toSorted().at(-1)];
    return first === undefined || last === undefined ? null : [first, last];
  };
}

/**
 * True for a row of which no column says a time; of several the first that is not null counts. What can be asked of an
 * index is asked so: an incremental run asks this each time, however large the table is.
 */
function isNoTime(columns: readonly Column[], isUntimed: RowQueryDialect['isUntimed']): RawBuilder<unknown> {
  const [first, ...rest] = columns;
  if (first === undefined) return sql`(1 = 1)`;
  const time = sql`${sql.id(first.name)}`;
  const isNone = sql`${time} IS NULL AND ${isNoTime(rest, isUntimed)}`;
  const mayBeNone = first.type === 'text' || first.type === 'json';
  return mayBeNone ? sql`(${isNone} OR ${time} IS NOT NULL AND ${isUntimed(time)})` : sql`(${isNone})`;
}

/** A column that holds keys of the records of another table. */
export interface References {
  table: string;
  column: string;
  /** False for a child table, in which deleted records have no rows. */
  isMarked: boolean;
  /** The resource's own table and its key. */
  target: { table: string; key: string };
}

/** References of live rows, and those among them whose record is not there or deleted. */
interface Dangling {
  references: number;
  dangling: number;
  /** One of their values; null if there are none. */
  example: string | null;
}

/** One statement that reads both tables. Keys are texts, whatever type the references have. */
async function danglingIn(
  own: Kysely<OwnTables>,
  { named, compared }: RowQueryDialect,
  { table, column, isMarked, target }: References,
): Promise<Dangling> {
  const [value, key] = [sql`CAST(f.${sql.id(column)} AS TEXT)`, sql`t.${sql.id(target.key)}`];
  const isLive = isMarked ? sql`AND f."_deleted_at" IS NULL` : sql``;
  const { rows } = await sql<{ n: number; dangling: number; example: string | null }>`
    SELECT count(*) AS n, count(CASE WHEN ${key} IS NULL THEN 1 END) AS dangling,
      min(CASE WHEN ${key} IS NULL THEN ${value} END) AS example
    FROM ${named(table)} AS f LEFT JOIN ${named(target.table)} AS t
      ON ${compared(key)} = ${compared(value)} AND t."_deleted_at" IS NULL
    WHERE f.${sql.id(column)} IS NOT NULL ${isLive}`.execute(own);
  const { n = 0, dangling = 0, example = null } = rows[0] ?? {};
  return { references: n, dangling, example };
}
