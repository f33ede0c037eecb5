import type Database from 'better-sqlite3';
import { differencesFrom, tablesIn } from './world/oracle.ts';
import { type Fields, isFields, parsed } from './world/json-value.ts';

const MOST_SHOWN = 20;

/** The records of a service, as JSON texts by the texts of their keys. */
export interface ServiceRecords {
  resources(): readonly string[];
  list(resource: string): Iterable<{ id: string; text: string }>;
}

interface Comparison {
  /** All of the service's where absent. */
  resources?: readonly string[];
  /** False where the profile keeps no bodies. */
  bodies?: boolean;
}

/**
 * Everything in which the warehouse is not the service, as sentences: rows and child rows by their content, bodies of
 * the open versions, and rows that are too many or too few. Reads the service's store and the catalogue of columns, and
 * uses none of the code that made the rows.
 */
export function differences(db: Database.Database, store: ServiceRecords, comparison: Comparison = {}): string[] {
  const { resources = store.resources(), bodies: hasBodies = true } = comparison;
  const found = resources.flatMap((resource) => {
    if (tablesIn(db, resource).length === 0) return [`${resource}: no table`];
    const truth = new Map(Array.from(store.list(resource), ({ id, text }) => [id, fieldsIn(text)]));
    const ofRows = differencesFrom(db, truth, true, { resource, hasBodies });
    const told = ofRows.map(({ kind, text }) => `${resource}: ${kind}: ${text}`);
    return hasBodies ? told.concat(strayRows(db, resource)) : told;
  });
  return found.length > MOST_SHOWN ? [...found.slice(0, MOST_SHOWN), `... ${found.length} in all`] : found;
}

function fieldsIn(text: string): Fields {
  const value = parsed(text);
  if (!isFields(value)) throw new Error(`no record: ${text}`);
  return value;
}

/** Rows whose version and hash no stored version has: they were not committed together. */
export function strayRows(db: Database.Database, resource: string): string[] {
  const key = tablesIn(db, resource)[0]?.keys[0] ?? 'id';
  return db
    .prepare<[string], string>(
      `SELECT t."${key}" FROM "${resource}" t LEFT JOIN _sync_versions v ON v.resource = ? AND v.id = t."${key}"
       AND v.version = t._version AND v.hash = t._hash AND v.valid_to IS NULL WHERE v.id IS NULL LIMIT 10`,
    )
    .pluck()
    .all(resource)
    .map((id) => `${resource} ${id}: its version and hash are not those of a stored version`);
}

/** Walks under way whose checkpoint does not count exactly the rows that are there: both are committed together. */
export function miscountedWalks(db: Database.Database): { resource: string; told: number }[] {
  return db
    .prepare<[], { resource: string; told: number }>(
      'SELECT resource, walk_records AS told FROM _sync_checkpoints WHERE walk_mode IS NOT NULL',
    )
    .all()
    .filter(({ resource, told }) => db.prepare(`SELECT count(*) FROM "${resource}"`).pluck().get() !== told);
}

/**
 * What must hold of deleted rows and of history at every moment: no child without a live parent, versions in one piece
 * (each ends where the next begins, only the last is open), the last one a delete exactly where the row is deleted.
 */
export function deleteFaults(db: Database.Database, resource: string): string[] {
  const [own, ...children] = tablesIn(db, resource);
  if (own === undefined) return [];
  const key = own.keys[0] ?? 'id';
  const orphans = children.map(
    (child) =>
      `SELECT '${child.name} ' || c."${child.keys[0]}" || ': no live parent' FROM "${child.name}" c
       LEFT JOIN "${own.name}" p ON p."${key}" = c."${child.keys[0]}" AND p._deleted_at IS NULL WHERE p."${key}" IS NULL`,
  );
  const gaps = `SELECT 'version ' || id || ' ' || version || ': ends at ' || coalesce(valid_to, 'never') || ', next at ' || next FROM
    (SELECT *, lead(valid_from) OVER (PARTITION BY id ORDER BY version) AS next FROM _sync_versions WHERE resource = '${resource}')
    WHERE next IS NOT valid_to`;
  const last = `SELECT 'row ' || r."${key}" || ': ' || v.op FROM "${own.name}" r JOIN _sync_versions v
    ON v.resource = '${resource}' AND v.id = r."${key}" AND v.valid_to IS NULL
    WHERE (v.op = 'delete') <> (r._deleted_at IS NOT NULL) OR v.version <> r._version`;
  return [...orphans, gaps, last].flatMap((query) => db.prepare<[], string>(`${query} LIMIT 5`).pluck().all());
}
