// Looks for the warehouse of a source without creating anything, for `check`.
import type { CheckFinding } from '../../checks/listing-scan.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { Database } from '../../database/database.ts';
import { databaseAt } from '../../database/databases.ts';
import type { WarehouseReader } from '../../database/reading.ts';
import { readShapes } from '../../database/state/catalog.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';

/**
 * Looks for the warehouse of a source without creating anything; the caller closes the reader, which is null if there is
 * no warehouse yet, or an older version wrote it. Throws `ConfigError` if the warehouse cannot be read.
 */
export async function findWarehouse(
  { warehouse, resources }: SourceSettings,
  clock: Clock,
): Promise<{ reader: WarehouseReader | null; finding: CheckFinding }> {
  const database = databaseAt(warehouse);
  const found = (status: CheckFinding['status'], detail: string, hint?: string): CheckFinding => ({
    check: 'warehouse',
    status,
    detail: `${database.shown}${detail}`,
    ...(hint === undefined ? {} : { hint }),
  });
  try {
    const reader = await database.openExistingWarehouse(clock);
    if (reader === null) return { reader, finding: await missing(database, resources, clock, found) };
    const managed = (await readShapes(reader.own)).flatMap(({ tables }) => tables.map(({ name }) => name));
    const foreign = foreignTables(resources, (await reader.rows.tableNames()).difference(new Set(managed)));
    if (foreign !== null) return { reader, finding: found('fail', ...foreign) };
    const server = await reader.server();
    const where = server === null ? ', which keeps times to the millisecond' : `, ${server}`;
    if (await reader.isWritable()) return { reader, finding: found('ok', where) };
    const hint =
      'nothing can be copied by this user or role: give it the right to write, or run content-sync as another';
    return { reader, finding: found('warn', `${where}, which may be read and not written`, hint) };
  } catch (error) {
    if (!(error instanceof ConfigError) || error.code !== 'warehouse_older') throw error;
    return { reader: null, finding: found('ok', ', of an older version: the next run brings it up to date') };
  }
}

async function missing(
  database: Database,
  resources: readonly string[],
  clock: Clock,
  found: (status: CheckFinding['status'], detail: string, hint?: string) => CheckFinding,
): Promise<CheckFinding> {
  try {
    const foreign = foreignTables(resources, await database.assertWritable(clock));
    if (foreign !== null) return found('fail', ...foreign);
    return found('ok', ', not there yet: the first run makes it');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return found('fail', `, not there, and cannot be made: ${error.message}`, error.hint);
  }
}

/** Returns the problem and the remedy if external tables have the names of tables that the first run would create; else null. */
function foreignTables(resources: readonly string[], existing: ReadonlySet<string>): [string, string] | null {
  const names = resources.filter((resource) => existing.has(resource));
  if (names.length === 0) return null;
  const hint = 'rename them, or point `warehouse` at a database or schema of its own';
  return [`, which has tables that content-sync did not make: ${names.join(', ')}`, hint];
}
