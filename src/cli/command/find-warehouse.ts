// Looks for the warehouse of a source for `check`, which must not create anything.
import type { CheckFinding } from '../../checks/listing-scan.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { Database } from '../../database/database.ts';
import { databaseAt } from '../../database/databases.ts';
import type { WarehouseReader } from '../../database/reading.ts';
import { readShapes } from '../../database/state/catalog.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';

/**
 * Returns what `check` prints about a warehouse: exists, does not exist yet, cannot be written. The caller closes the reader,
 * which is null without a warehouse, or if an older version wrote it. Throws `ConfigError` if it cannot be read.
 */
export async function findWarehouse(
  { warehouse, resources }: SourceSettings,
  clock: Clock,
): Promise<{ reader: WarehouseReader | null; finding: CheckFinding }> {
  const database = databaseAt(warehouse);
  const address = database.shown;
  try {
    const reader = await database.openExistingWarehouse(clock);
    if (reader === null) return { reader, finding: await checkMissingWarehouse(database, resources, clock) };
    const managed = (await readShapes(reader.own)).flatMap(({ tables }) => tables.map(({ name }) => name));
    const external = (await reader.rows.tableNames()).difference(new Set(managed));
    const conflict = findTableConflict(address, resources, external);
    if (conflict !== null) return { reader, finding: conflict };
    // Null for SQLite, which has no server and whose clock has milliseconds; else the server and its version.
    const server = await reader.server();
    const summary = `${address}, ${server ?? 'which keeps times to the millisecond'}`;
    if (await reader.isWritable()) return { reader, finding: toFinding('ok', summary) };
    const hint =
      'nothing can be copied by this user or role: give it the right to write, or run content-sync as another';
    return { reader, finding: toFinding('warn', `${summary}, which may be read and not written`, hint) };
  } catch (error) {
    if (!(error instanceof ConfigError) || error.code !== 'warehouse_older') throw error;
    const detail = `${address}, of an older version: the next run brings it up to date`;
    return { reader: null, finding: toFinding('ok', detail) };
  }
}

function toFinding(status: CheckFinding['status'], detail: string, hint?: string): CheckFinding {
  return { check: 'warehouse', status, detail, ...(hint === undefined ? {} : { hint }) };
}

/** Checks whether the first run could create the warehouse. */
async function checkMissingWarehouse(
  database: Database,
  resources: readonly string[],
  clock: Clock,
): Promise<CheckFinding> {
  const address = database.shown;
  try {
    const conflict = findTableConflict(address, resources, await database.assertWritable(clock));
    return conflict ?? toFinding('ok', `${address}, not there yet: the first run makes it`);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return toFinding('fail', `${address}, not there, and cannot be made: ${error.message}`, error.hint);
  }
}

/** Finds external tables with the names of tables that the first run would create; null if there are none. */
function findTableConflict(
  address: string,
  resources: readonly string[],
  external: ReadonlySet<string>,
): CheckFinding | null {
  const names = resources.filter((resource) => external.has(resource));
  if (names.length === 0) return null;
  const detail = `${address}, which has tables that content-sync did not make: ${names.join(', ')}`;
  return toFinding('fail', detail, 'rename them, or point `warehouse` at a database or schema of its own');
}
