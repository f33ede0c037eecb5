import { sql } from 'kysely';
import { idIn, type TracePlace } from './count-traces.ts';

const IDS_PER_STEP = 5_000;

/** The ids of all records of which a resource has a row, a version, a note or a body set aside; some come more than once. */
export async function* knownIds({ warehouse, resource, shape, profile }: TracePlace): AsyncIterable<string> {
  const [root] = shape?.tables ?? [];
  if (root !== undefined) yield* idsOf(warehouse, root.name, root.key[0] ?? '', null);
  yield* idsOf(warehouse, '_sync_versions', 'id', resource);
  yield* idsOf(warehouse, '_sync_deletes', 'id', resource);
  yield* idsOf(warehouse, '_sync_suspects', 'record_id', resource);
  yield* idsOf(warehouse, '_sync_files', 'record_id', resource);
  const rejects = warehouse.own.selectFrom('_sync_rejects').select(['record_id', 'body']);
  for (const { record_id, body } of await rejects.where('resource', '=', resource).execute()) {
    const id = record_id ?? idIn(body, profile);
    if (id !== null) yield id;
  }
}

/** `resource` is null for a table that is of one resource alone. */
async function* idsOf(
  { own, named }: TracePlace['warehouse'],
  table: string,
  column: string,
  resource: string | null,
): AsyncIterable<string> {
  const id = sql.id(column);
  const isOf = resource === null ? sql`` : sql`"resource" = ${resource} AND`;
  for (let last = ''; ;) {
    const { rows } = await sql<{ id: string }>`SELECT DISTINCT ${id} AS "id" FROM ${named(table)}
      WHERE ${isOf} ${id} > ${last} ORDER BY ${id} LIMIT ${sql.lit(IDS_PER_STEP)}`.execute(own);
    for (const row of rows) yield row.id;
    const end = rows.at(-1);
    if (end === undefined) return;
    last = end.id;
  }
}
