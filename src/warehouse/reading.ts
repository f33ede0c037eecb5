import { type Kysely, sql, type RawBuilder } from 'kysely';
import type { Column } from '../model/table.ts';
import { danglingIn, type Dangling, type References } from './dangling.ts';
import type { DeliveryRow, Inbox, InboxTables } from './inbox.ts';
import type { Cell } from '../model/table.ts';
import type { OwnTables } from './own-tables.ts';
import type { Warehouse } from './warehouse.ts';

/** Queries of commands that only read. Nothing is made, changed or migrated for them. */
export interface WarehouseReader
  extends
    Pick<Warehouse, 'own' | 'dialect' | 'named' | 'tableNames' | 'count' | 'countAll' | 'countDeleted' | 'close'>,
    Pick<RowQueries, 'dangling'> {
  /** False if this user, or this role, may read it and not write. */
  isWritable(): Promise<boolean>;
  /** Version of the server and the role that reads, for people; null for a file. */
  server(): Promise<string | null>;
}

/** The same of an inbox. */
export type InboxViewer = Pick<Inbox, 'list' | 'get' | 'after' | 'close'>;

/** Asks by single statements, which are alike on all databases. */
export function inboxViewer(own: Kysely<InboxTables>, close: () => Promise<void>): InboxViewer {
  const all = own.selectFrom('_sync_deliveries').selectAll();
  return {
    list: ({ state, limit }) => {
      const rows = all.orderBy('seq', 'desc').limit(limit);
      return (state === undefined ? rows : rows.where('state', '=', state)).execute();
    },
    get: async (delivery): Promise<DeliveryRow | null> => {
      const one =
        typeof delivery === 'number' ? all.where('seq', '=', delivery) : all.where('delivery_id', '=', delivery);
      return (await one.executeTakeFirst()) ?? null;
    },
    after: (seq, limit) => all.where('seq', '>', seq).orderBy('seq').limit(limit).execute(),
    close,
  };
}

/** Of a text in a sample: enough to tell that it is long. */
const SAMPLED_LETTERS = 40;

interface RowQueries extends Pick<
  Warehouse,
  | 'named'
  | 'tableNames'
  | 'holdsBeyondDouble'
  | 'sample'
  | 'timeSpan'
  | 'keysAfter'
  | 'latestKeys'
  | 'countUntimed'
  | 'count'
  | 'countAll'
  | 'countDeleted'
> {
  /** How many references lead nowhere. */
  dangling(references: References): Promise<Dangling>;
}

/** The parts of these queries in which the databases differ. */
export interface RowQueryDialect {
  /** A copied table as a statement names it. */
  named: (table: string) => RawBuilder<unknown>;
  tableNames: () => Promise<Set<string>>;
  /** A moment as a column of ours holds it; '' lies before all of them. */
  moment: (text: string) => RawBuilder<unknown>;
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
    timeSpan: timeSpan(own, dialect),
    sample: sample(own, dialect),
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

function sample(own: Kysely<OwnTables>, { named }: RowQueryDialect): Warehouse['sample'] {
  return async ({ name, path }, columns, limit) => {
    const cells = columns.map(({ name: column, type }) => {
      const cell = sql`${sql.id(column)}`;
      return sql`${type === 'text' ? sql`substr(${cell}, 1, ${sql.lit(SAMPLED_LETTERS)})` : cell} AS ${sql.id(column)}`;
    });
    const live = path.length === 0 ? sql`WHERE "_deleted_at" IS NULL` : sql``;
    const rows = sql<Record<string, Cell>>`SELECT ${sql.join(cells)} FROM ${named(name)} ${live} LIMIT ${limit}`;
    return (await rows.execute(own)).rows;
  };
}

function timeSpan(own: Kysely<OwnTables>, { named }: RowQueryDialect): Warehouse['timeSpan'] {
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
