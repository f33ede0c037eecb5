import { sql } from 'kysely';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { RejectRow } from '../../warehouse/own-tables.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** How much of a record is stored, or was erased. */
export interface TraceCounts {
  rows: number;
  /** Rows of child tables. */
  children: number;
  versions: number;
  rejects: number;
  /** Deletes that are remembered or suspected. */
  deletes: number;
  /** What is remembered of its files; their contents go too, unless other records show them. */
  files: number;
  deliveries: number;
}

export const NO_TRACES: TraceCounts = {
  rows: 0,
  children: 0,
  versions: 0,
  rejects: 0,
  deletes: 0,
  files: 0,
  deliveries: 0,
};

/** Where records of a resource are looked for. */
export interface TracePlace {
  warehouse: Pick<Warehouse, 'own' | 'named'>;
  resource: string;
  /** Null if it has no tables yet. */
  shape: ResourceShape | null;
  profile: Pick<ResourceProfile, 'id'>;
}

/** A record set aside, and the id of the record that its body is of. */
export type KeyedReject = Pick<RejectRow, 'hash' | 'reason' | 'body'> & { id: string };

/** By id, of those in `ids`; deliveries are in another place, and not counted. */
export async function countTraces(place: TracePlace, ids: readonly string[]): Promise<Map<string, TraceCounts>> {
  const { warehouse, resource, shape } = place;
  const counts = new Map(ids.map((id) => [id, { ...NO_TRACES }]));
  const add = (what: keyof TraceCounts, found: readonly { id: string; n: number }[]): void => {
    for (const { id, n } of found) {
      const count = counts.get(id);
      if (count !== undefined) count[what] += n;
    }
  };
  for (const table of shape?.tables ?? []) {
    add(table.path.length === 0 ? 'rows' : 'children', await countIn(warehouse, table, ids));
  }
  const tables = [
    ['versions', '_sync_versions', 'id'],
    ['deletes', '_sync_deletes', 'id'],
    ['deletes', '_sync_suspects', 'record_id'],
    ['files', '_sync_files', 'record_id'],
  ] as const;
  for (const [what, table, column] of tables) add(what, await countOwn(warehouse, resource, table, column, ids));
  const rejects = await rejectsOf(place, new Set(ids));
  add(
    'rejects',
    rejects.map(({ id }) => ({ id, n: 1 })),
  );
  return counts;
}

async function countIn(
  { own, named }: TracePlace['warehouse'],
  { name, key: [first = ''] }: TableShape,
  ids: readonly string[],
) {
  const { rows } = await sql<{ id: string; n: number }>`SELECT ${sql.id(first)} AS "id", count(*) AS "n"
    FROM ${named(name)} WHERE ${sql.id(first)} IN (${sql.join(ids)}) GROUP BY ${sql.id(first)}`.execute(own);
  return rows;
}

async function countOwn(
  { own, named }: TracePlace['warehouse'],
  resource: string,
  table: string,
  column: string,
  ids: readonly string[],
) {
  const { rows } = await sql<{ id: string; n: number }>`SELECT ${sql.id(column)} AS "id", count(*) AS "n"
    FROM ${named(table)} WHERE "resource" = ${resource} AND ${sql.id(column)} IN (${sql.join(ids)})
    GROUP BY ${sql.id(column)}`.execute(own);
  return rows;
}

/** Records set aside under one of the ids, or with a body of such a record. */
export async function rejectsOf(
  { warehouse: { own }, resource, profile }: TracePlace,
  ids: ReadonlySet<string>,
): Promise<KeyedReject[]> {
  const all = own.selectFrom('_sync_rejects').select(['hash', 'reason', 'body', 'record_id']);
  const rows = await all
    .where('resource', '=', resource)
    .where((is) => is.or([is('record_id', 'is', null), is('record_id', 'in', [...ids])]))
    .execute();
  return rows.flatMap(({ record_id, ...row }) => {
    const id = record_id ?? idIn(row.body, profile);
    return id !== null && ids.has(id) ? [{ ...row, id }] : [];
  });
}

/** The id of the record that a body is of; null if it tells none. */
export function idIn(body: string, { id }: Pick<ResourceProfile, 'id'>): string | null {
  try {
    const found = recordKey(parseJson(body), id);
    return 'key' in found ? found.key : null;
  } catch {
    return null;
  }
}
