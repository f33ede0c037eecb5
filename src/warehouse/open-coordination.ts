import type { Clock } from '../model/clock.ts';
import type { Coordination } from './coordination.ts';
import { openPostgresCoordination } from './postgres/coordination/open-coordination.ts';

/** By the scheme of the `warehouse` setting; where one process does the work there is nothing to share. */
const COORDINATIONS: Readonly<Record<string, (place: string, clock: Clock) => Promise<Coordination>>> = {
  postgres: openPostgresCoordination,
  postgresql: openPostgresCoordination,
};

/**
 * Opens what all processes share that write to the database of a `warehouse` address; null where it has nothing of the
 * kind. All sources of a process on one database share one. Throws `ConfigError` where it cannot be used.
 */
export async function openCoordination(address: string, clock: Clock): Promise<Coordination | null> {
  const [, scheme = '', place = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  return (await COORDINATIONS[scheme]?.(place, clock)) ?? null;
}
