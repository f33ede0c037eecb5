import type { CompiledQuery, Kysely } from 'kysely';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import { columnRow, commentKey, keyRows, schemaChanges } from './column-catalog.ts';
import { saveColumns } from './column-rows.ts';
import type { SaidOfFields } from './column-comments.ts';

/** The statements that remember tables which have taken the place of others; only what differs goes into the log. */
export function replaceShape(
  own: Kysely<OwnTables>,
  before: ResourceShape,
  after: ResourceShape,
  at: string,
  said: SaidOfFields,
  runId: string,
): CompiledQuery[] {
  const types = new Map(
    before.tables.flatMap(({ name, columns }) => columns.map((column) => [commentKey(name, column.name), column.type])),
  );
  const all = after.tables.flatMap(({ name: table, columns }) =>
    columns.map((column): ShapeChange => ({ table, column, from: types.get(commentKey(table, column.name)) ?? null })),
  );
  const rows = [
    ...after.tables.flatMap((table) => keyRows(after.resource, table, at, said)),
    ...all.map((change) => columnRow(after, change, at, said)),
  ];
  const changed = all.filter(({ column, from }) => from !== column.type);
  return [
    own.deleteFrom('_sync_columns').where('resource', '=', after.resource).compile(),
    ...saveColumns(own, rows),
    ...schemaChanges(own, after.resource, changed, at, runId),
  ];
}
