import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { CheckFinding } from '../sync/check/finding.ts';
import { lookForWarehouse, refuseMaking, shownPlace } from '../warehouse/databases.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';

/** Where the copy is kept, as it is found. */
export interface FoundWarehouse {
  /** Null where there is none yet, or an older version wrote it. */
  reader: WarehouseReader | null;
  finding: CheckFinding;
}

/**
 * Looks for the warehouse of a source and makes nothing there; whoever asks closes the reader. Throws `ConfigError`
 * where it cannot be looked into.
 */
export async function findWarehouse({ warehouse }: SourceSettings, clock: Clock): Promise<FoundWarehouse> {
  const place = shownPlace(warehouse);
  const found = (status: CheckFinding['status'], detail: string, hint?: string): CheckFinding => ({
    check: 'warehouse',
    status,
    detail: `${place}${detail}`,
    ...(hint === undefined ? {} : { hint }),
  });
  try {
    const reader = await lookForWarehouse(warehouse, clock);
    if (reader === null) return { reader, finding: await missing(warehouse, clock, found) };
    const server = await reader.server();
    const where = server === null ? '' : `, ${server}`;
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
  address: string,
  clock: Clock,
  found: (status: CheckFinding['status'], detail: string, hint?: string) => CheckFinding,
): Promise<CheckFinding> {
  try {
    await refuseMaking(address, clock);
    return found('ok', ', not there yet: the first run makes it');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return found('fail', `, not there, and cannot be made: ${error.message}`, error.hint);
  }
}
