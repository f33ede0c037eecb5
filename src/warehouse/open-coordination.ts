import type { Clock } from '../model/clock.ts';
import type { Hub } from './coordination.ts';
import { openPostgresHub } from './postgres/coordination/open-coordination.ts';

/** By the scheme of the `warehouse` setting; where one process does the work there is nothing to share. */
const HUBS: Readonly<Record<string, (place: string, clock: Clock) => Promise<Hub>>> = {
  postgres: openPostgresHub,
  postgresql: openPostgresHub,
};

/**
 * Opens what all processes share that write to the database of a `warehouse` address; null where it has nothing of the
 * kind. All sources of a process on one database share one. Throws `ConfigError` where it cannot be used.
 */
export async function openHub(address: string, clock: Clock): Promise<Hub | null> {
  const [, scheme = '', place = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  return (await HUBS[scheme]?.(place, clock)) ?? null;
}
