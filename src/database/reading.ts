// Queries on the rows of copied tables, for syncing, verifying and commands that only read. SQLite and Postgres share them;
// the expressions in which they differ come from a `RowQueryDialect`.
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Cell, Column, TableShape } from '../model/table.ts';
import type { OwnTables, TimestampText } from './own-tables.ts';
import type { ViewDialect } from './view-dialect.ts';

/** Access to the tables of a warehouse. */
export interface TableAccess {
  /** Queries on internal tables (`_sync_...`). */
  readonly own: Kysely<OwnTables>;
  /** Queries on copied tables. */
  readonly rows: RowQueries;
}

/** A warehouse for commands that only read: nothing is created, changed or migrated. */
export interface WarehouseReader extends TableAccess {
  readonly dialect: ViewDialect;
  /** False if this user or role may not write. */
  isWritable(): Promise<boolean>;
  /** Version of the server and the role, for messages; null for a file. */
  server(): Promise<string | null>;
  close(): Promise<void>;
}

/** The parts of the queries in which the databases differ. */
interface RowQueryDialect {
  /** The quoted name of a copied table. */
  named: (table: string) => RawBuilder<unknown>;
  /** Reads the names of all tables and views, external ones included, in lower case. */
  tableNames: () => Promise<Set<string>>;
  /** The internal column that orders rows by their insertion. */
  insertOrder: 'rowid' | 'ctid';
  /** Converts a UTC text to the type of an internal time column; '' is before all times. */
  timestamp: (text: string) => RawBuilder<unknown>;
  /** Converts a time to a UTC text. */
  timestampText: (cell: RawBuilder<unknown>) => RawBuilder<unknown>;
  /** True for a text that is one of `texts`. */
  isAmong: (text: RawBuilder<unknown>, texts: readonly string[]) => RawBuilder<unknown>;
  /** True for a text (or JSON) that is no time, because it does not begin with a digit. */
  isUntimed: (text: RawBuilder<unknown>) => RawBuilder<unknown>;
}

/** The state of a stored row. */
export interface StoredRow {
  hash: string;
  version: number;
  syncedAt: TimestampText;
  /** Null for a live row. */
  deletedAt: TimestampText | null;
  /** The cell of the `updated` column; null if there is none. */
  updated: Cell;
}

/** Two days or times as texts, the earlier one first. */
type TimeSpan = readonly [first: string, last: string];

/** Queries on the rows of copied tables. */
export class RowQueries {
  readonly named: RowQueryDialect['named'];
  readonly tableNames: RowQueryDialect['tableNames'];
  readonly #own: Kysely<OwnTables>;
  readonly #dialect: RowQueryDialect;

  constructor(own: Kysely<OwnTables>, dialect: RowQueryDialect) {
    this.named = dialect.named;
    this.tableNames = dialect.tableNames;
    this.#own = own;
    this.#dialect = dialect;
  }

  /**
   * Reads the stored rows of `keys`, in the order of `keys`. `updated` are the columns that may have the time of change: the
   * first cell that is not null counts. If their types differ, it is a text, and a time ends with `Z`.
   */
  async stored(
    { name, key: [key = ''] }: TableShape,
    keys: readonly string[],
    updated: readonly Column[],
  ): Promise<Map<string, StoredRow>> {
    const { timestampText, isAmong } = this.#dialect;
    // No source column has the name `_key`.
    const { rows } = await sql<StoredRow & { _key: string }>`
      SELECT ${sql.id(key)} AS "_key", "_hash" AS "hash", "_version" AS "version",
        ${timestampText(sql`"_synced_at"`)} AS "syncedAt", ${timestampText(sql`"_deleted_at"`)} AS "deletedAt",
        ${selectFirstCell(updated, this.#dialect)} AS "updated"
      FROM ${this.named(name)} WHERE ${isAmong(sql.id(key), keys)}`.execute(this.#own);
    const found = new Map(rows.map(({ _key, ...row }) => [_key, row]));
    const ordered = new Map<string, StoredRow>();
    for (const each of keys) {
      const row = found.get(each);
      if (row !== undefined) ordered.set(each, row);
    }
    return ordered;
  }

  /** True if the integer column has a value that a double cannot hold exactly. */
  async holdsBeyondDouble(table: string, column: string): Promise<boolean> {
    const [min, max] = [sql.lit(Number.MIN_SAFE_INTEGER), sql.lit(Number.MAX_SAFE_INTEGER)];
    const isExact = sql`${sql.id(column)} BETWEEN ${min} AND ${max}`;
    const { rows } = await sql`SELECT 1 FROM ${this.named(table)} WHERE NOT (${isExact}) LIMIT 1`.execute(this.#own);
    return rows.length > 0;
  }

  /** Returns the first and last time in these columns within a span; null for none. Reads the whole table. */
  async timeSpan({ name }: TableShape, columns: readonly Column[], [from, to]: TimeSpan): Promise<TimeSpan | null> {
    if (columns.length === 0) return null;
    const ends = columns.flatMap(({ name: column }, at) => {
      const within = sql`FILTER (WHERE ${sql.id(column)} >= ${sql.lit(from)} AND ${sql.id(column)} < ${sql.lit(to)})`;
      const [first, last] = [sql.id(`first_${at}`), sql.id(`last_${at}`)];
      return [sql`min(${sql.id(column)}) ${within} AS ${first}`, sql`max(${sql.id(column)}) ${within} AS ${last}`];
    });
    const query = sql<Record<string, string | null>>`SELECT ${sql.join(ends)} FROM ${this.named(name)}`;
    const [row = {}] = (await query.execute(this.#own)).rows;
    const times = Object.values(row).filter((time) => time !== null);
    const [first, last] = [times.toSorted()[0], times.toSorted().at(-1)];
    return first === undefined || last === undefined ? null : [first, last];
  }

  /** Returns the keys after `after` of all rows, in the database's order. */
  keysAfter({ name, key: [first = ''] }: TableShape, after: string, limit: number): Promise<string[]> {
    const key = sql.id(first);
    // The database reads only the index of the keys.
    return this.#readKeys(
      sql`SELECT ${key} AS "key" FROM ${this.named(name)} WHERE ${key} > ${after} ORDER BY ${key} LIMIT ${limit}`,
    );
  }

  /** Returns the keys of rows that were deleted before a time, the oldest first. */
  keysDeletedBefore({ name, key: [first = ''] }: TableShape, before: TimestampText, limit: number): Promise<string[]> {
    return this.#readKeys(sql`SELECT ${sql.id(first)} AS "key" FROM ${this.named(name)}
      WHERE "_deleted_at" < ${before} ORDER BY "_deleted_at" LIMIT ${limit}`);
  }

  /** Returns those of the keys whose rows are live and were last written before a time. */
  async keysWrittenBefore(
    { name, key: [first = ''] }: TableShape,
    keys: readonly string[],
    before: TimestampText,
  ): Promise<string[]> {
    if (keys.length === 0) return [];
    const key = sql.id(first);
    return this.#readKeys(sql`SELECT ${key} AS "key" FROM ${this.named(name)}
      WHERE ${key} IN (${sql.join(keys)}) AND "_deleted_at" IS NULL AND "_synced_at" < ${before}`);
  }

  /**
   * Returns the keys of the live rows with the latest times, up to `limit` per column. A row counts for its first column that
   * is not null.
   */
  async latestKeys(
    { name, key: [first = ''] }: TableShape,
    columns: readonly Column[],
    limit: number,
  ): Promise<string[]> {
    // One query per column, because their types may not be comparable.
    const keys = columns.map((column, index) => {
      const time = sql.id(column.name);
      const isFirst = columns.slice(0, index).map((former) => sql`AND ${sql.id(former.name)} IS NULL`);
      return this.#readKeys(sql`SELECT ${sql.id(first)} AS "key" FROM ${this.named(name)} WHERE "_deleted_at" IS NULL
        AND ${time} IS NOT NULL ${sql.join(isFirst, sql` `)} ORDER BY ${time} DESC LIMIT ${limit}`);
    });
    return (await Promise.all(keys)).flat();
  }

  /** Returns the keys of up to `limit` live rows, spread over the table, that are no delete candidates. */
  liveSample({ name, key: [first = ''] }: TableShape, resource: string, limit: number): Promise<string[]> {
    const key = sql`t.${sql.id(first)}`;
    const candidates = sql`SELECT 1 FROM ${this.named('_sync_suspects')} AS s WHERE s."resource" = ${resource} AND s."record_id" = ${key}`;
    const order = sql.id(this.#dialect.insertOrder);
    const numbered = sql`row_number() OVER (ORDER BY t.${order}) - 1 AS "at", count(*) OVER () AS "all"`;
    const live = sql`SELECT ${key} AS "key", ${numbered} FROM ${this.named(name)} AS t
      WHERE t."_deleted_at" IS NULL AND NOT EXISTS (${candidates})`;
    const isSampled = sql`"at" * ${sql.lit(limit)} % "all" < ${sql.lit(limit)}`;
    return this.#readKeys(sql`SELECT "key" FROM (${live}) AS live WHERE ${isSampled} ORDER BY "at"`);
  }

  /** Counts live rows without a time: the first non-null cell of these columns is none. Reads the table if no index helps. */
  countUntimed({ name }: TableShape, columns: readonly Column[]): Promise<number> {
    // A condition on `_deleted_at` would make the planner use its index in place of that of the times.
    const live = sql`count(*) FILTER (WHERE "_deleted_at" IS NULL)`;
    const hasNone = hasNoTime(columns, this.#dialect.isUntimed);
    return this.#readCount(sql`SELECT ${live} AS n FROM ${this.named(name)} WHERE ${hasNone}`);
  }

  /** Counts the live rows of a table; 0 if there is no such table. */
  async count(table: string): Promise<number> {
    if (!(await this.#exists(table))) return 0;
    const rows = this.named(table);
    // All rows minus deleted rows: indexes suffice for both counts, but counting live rows would read the table.
    const deleted = sql`SELECT count(*) FROM ${rows} WHERE "_deleted_at" IS NOT NULL`;
    return this.#readCount(sql`SELECT (SELECT count(*) FROM ${rows}) - (${deleted}) AS n`);
  }

  /** Counts all rows of a table; 0 if there is no such table. */
  async countAll(table: string): Promise<number> {
    return (await this.#exists(table)) ? this.#readCount(sql`SELECT count(*) AS n FROM ${this.named(table)}`) : 0;
  }

  /** Counts rows that were deleted at `since` or later ('' for all); 0 if there is no such table. */
  async countDeleted(table: string, since: TimestampText): Promise<number> {
    if (!(await this.#exists(table))) return 0;
    return this.#readCount(sql`SELECT count(*) AS n FROM ${this.named(table)} WHERE "_deleted_at" IS NOT NULL
      AND "_synced_at" >= ${this.#dialect.timestamp(since)}`);
  }

  async #readCount(query: RawBuilder<unknown>): Promise<number> {
    return (await sql<{ n: number }>`${query}`.execute(this.#own)).rows[0]?.n ?? 0;
  }

  async #readKeys(query: RawBuilder<unknown>): Promise<string[]> {
    return (await sql<{ key: string }>`${query}`.execute(this.#own)).rows.map(({ key }) => key);
  }

  /** Returns false also for an external table of this name, which is not in the catalog of columns. */
  async #exists(table: string): Promise<boolean> {
    const columns = this.#own.selectFrom('_sync_columns').select('column_name').where('table_name', '=', table);
    return (await columns.limit(1).executeTakeFirst()) !== undefined && (await this.tableNames()).has(table);
  }
}

/** Selects the first cell that is not null, as a text if the columns have several types. */
function selectFirstCell(columns: readonly Column[], { timestampText }: RowQueryDialect): RawBuilder<unknown> {
  const isMixed = new Set(columns.map(({ type }) => type)).size > 1;
  const cells = columns.map(({ name, type }) => {
    const cell = type === 'timestamp' ? timestampText(sql.id(name)) : sql`${sql.id(name)}`;
    if (!isMixed) return cell;
    return type === 'timestamp' ? sql`CAST(${cell} AS text) || 'Z'` : sql`CAST(${cell} AS text)`;
  });
  return cells.length > 1 ? sql`COALESCE(${sql.join(cells)})` : (cells[0] ?? sql`CAST(NULL AS text)`);
}

/** True for a row whose first non-null cell of the columns is no time. The condition lets each incremental run use indexes. */
function hasNoTime(columns: readonly Column[], isUntimed: RowQueryDialect['isUntimed']): RawBuilder<unknown> {
  const [first, ...rest] = columns;
  if (first === undefined) return sql`(1 = 1)`;
  const time = sql`${sql.id(first.name)}`;
  const isNull = sql`${time} IS NULL AND ${hasNoTime(rest, isUntimed)}`;
  const mayBeOther = first.type === 'text' || first.type === 'json';
  return mayBeOther ? sql`(${isNull} OR ${time} IS NOT NULL AND ${isUntimed(time)})` : sql`(${isNull})`;
}
