import { sql, type CompiledQuery } from 'kysely';
import type { TableShape } from '../model/table.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';

/** Rows of a resource that leave the copy for good. */
export interface DroppedRows {
  resource: string;
  table: TableShape;
  children: readonly TableShape[];
  /** At most as many as a statement may bind. */
  keys: readonly string[];
}

/** The statements that take rows out with all that is kept of them: child rows, versions, and what is known of their deletes. */
export function dropStatements(
  { own, named }: Pick<Warehouse, 'own' | 'named'>,
  dropped: DroppedRows,
): CompiledQuery[] {
  const { resource, table, children, keys } = dropped;
  if (keys.length === 0) return [];
  const list = sql.join(keys);
  const known = [
    { table: '_sync_versions', column: 'id' },
    { table: '_sync_deletes', column: 'id' },
    { table: '_sync_suspects', column: 'record_id' },
  ];
  return [
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${list})`),
    ...known.map(
      (each) =>
        sql`DELETE FROM ${named(each.table)} WHERE "resource" = ${resource} AND ${sql.id(each.column)} IN (${list})`,
    ),
    sql`DELETE FROM ${named(table.name)} WHERE ${sql.id(table.key[0] ?? '')} IN (${list})`,
  ].map((statement) => statement.compile(own));
}
