import { sql, type CompiledQuery, type RawBuilder } from 'kysely';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { inParts } from '../../state/in-parts.ts';
import type { LoadContext } from '../load-context.ts';

/** Tables from before, and those that take their place. */
export interface Rebuild {
  before: ResourceShape;
  after: ResourceShape;
  /** The same tables under the names that they are filled under. */
  beside: ResourceShape;
}

/** Columns of ours, which tell of the record and not of its tables. */
const STAMPS = ['_hash', '_version', '_synced_at', '_deleted_at'] as const;
const IDS_PER_STATEMENT = 1_000;

/** The statements that give filled rows the stamps that they had, and take out what has no row: for the page that fills them. */
export function keepStamps(
  { warehouse: { own, named } }: LoadContext,
  { before, beside }: Rebuild,
  keys: readonly string[],
): CompiledQuery[] {
  const [old, made] = [before.tables[0], beside.tables[0]];
  if (old === undefined || made === undefined || keys.length === 0) return [];
  const key = sql.id(made.key[0] ?? '');
  const ofOld = sql`FROM ${named(old.name)} AS o WHERE o.${sql.id(old.key[0] ?? '')} = ${named(made.name)}.${key}`;
  const stamps = STAMPS.map((stamp) => sql`${sql.id(stamp)} = (SELECT o.${sql.id(stamp)} ${ofOld})`);
  const ofPage = sql`${key} IN (${sql.join(keys)})`;
  return [
    ...beside.tables.map((table) => {
      const column = sql.id(table.key[0] ?? '');
      const live = table.path.length === 0 ? sql`` : sql` AND "_deleted_at" IS NULL`;
      return sql`DELETE FROM ${named(table.name)} WHERE ${column} IN (${sql.join(keys)}) AND ${column} NOT IN
        (SELECT ${sql.id(old.key[0] ?? '')} FROM ${named(old.name)} WHERE ${sql.id(old.key[0] ?? '')} IN (${sql.join(keys)})${live})`;
    }),
    sql`UPDATE ${named(made.name)} SET ${sql.join(stamps)} WHERE ${ofPage}`,
  ].map((statement) => statement.compile(own));
}

/**
 * Records without a body keep their rows, as far as the tables still have their columns. Returns how many of them are
 * live.
 */
export async function carryOver({ warehouse, owned }: LoadContext, rebuild: Rebuild): Promise<number> {
  const { own, named } = warehouse;
  const [old, made] = [rebuild.before.tables[0], rebuild.beside.tables[0]];
  if (old === undefined || made === undefined) return 0;
  const [oldKey, key] = [sql.id(old.key[0] ?? ''), sql.id(made.key[0] ?? '')];
  const { rows } = await sql<{ id: string; is_deleted: unknown }>`
    SELECT o.${oldKey} AS "id", o."_deleted_at" AS "is_deleted" FROM ${named(old.name)} AS o
    WHERE NOT EXISTS (SELECT 1 FROM ${named(made.name)} AS n WHERE n.${key} = o.${oldKey})`.execute(own);
  for (const part of inParts(rows, IDS_PER_STATEMENT)) {
    const ids = part.map(({ id }) => id);
    const statements = rebuild.after.tables.flatMap((table, at) => carried(rebuild, table, at, named, ids));
    await warehouse.apply(
      statements.map((statement) => statement.compile(own)),
      owned.lease(),
    );
  }
  return rows.filter(({ is_deleted }) => is_deleted === null).length;
}

/** Their rows of one table, in those columns that stay under their name and type. */
function carried(
  { before, beside }: Rebuild,
  table: TableShape,
  at: number,
  named: LoadContext['warehouse']['named'],
  ids: readonly string[],
): RawBuilder<unknown>[] {
  const old = before.tables.find(({ name }) => name === table.name);
  const made = beside.tables[at];
  if (old === undefined || made === undefined || old.key.join() !== table.key.join()) return [];
  const same = table.columns.filter(({ name, type }) =>
    old.columns.some((one) => one.name === name && one.type === type),
  );
  const stamps = table.path.length === 0 ? STAMPS : [];
  const columns = sql.join([...table.key, ...stamps, ...same.map(({ name }) => name)].map((name) => sql.id(name)));
  return [
    sql`INSERT INTO ${named(made.name)} (${columns}) SELECT ${columns} FROM ${named(table.name)}
      WHERE ${sql.id(table.key[0] ?? '')} IN (${sql.join(ids)})`,
  ];
}
