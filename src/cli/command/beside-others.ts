import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { openWarehouseToRead, sharedDatabase } from '../../warehouse/databases.ts';

/** The least part of a limit that a command takes beside a process that is at work. */
const LEAST_SHARE = 0.05;

/**
 * The source for a command that only reads it: where another process of this machine is at work on it, whose budget
 * nobody shares, the command takes what that one leaves of the limit.
 */
export async function besideOthers(source: SourceSettings, clock: Clock): Promise<SourceSettings> {
  if (sharedDatabase(source.warehouse) !== null) return source;
  const reader = await openWarehouseToRead(source.warehouse, clock);
  try {
    const leases = reader.own.selectFrom('_sync_leases').select('name');
    const held = await leases.where('expires_at', '>', timestampText(clock.now())).limit(1).execute();
    if (held.length === 0) return source;
    const { share } = source.rate;
    return { ...source, rate: { ...source.rate, share: Math.max(LEAST_SHARE, Math.min(share, 1 - share)) } };
  } finally {
    await reader.close();
  }
}
