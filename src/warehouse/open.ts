import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { openPostgres } from './postgres/open.ts';
import { openSqlite } from './sqlite/open.ts';
import type { Warehouse } from './warehouse.ts';

type OpenWarehouse = (place: string, clock: Clock) => Promise<Warehouse>;

/** By the scheme of the `warehouse` setting; a further database is a further row. */
const DATABASES: Readonly<Record<string, OpenWarehouse>> = {
  sqlite: openSqlite,
  postgres: openPostgres,
  postgresql: openPostgres,
};

/**
 * Opens the warehouse at an address such as `sqlite:/var/lib/content-sync/blog.db` or
 * `postgres://host/database?schema=blog`.
 */
export function openWarehouse(address: string, clock: Clock): Promise<Warehouse> {
  const [, scheme = '', place = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const open = DATABASES[scheme];
  if (open === undefined) {
    throw new ConfigError('config_invalid', `warehouse: no database is known by "${scheme}:"`, {
      hint: `use one of ${Object.keys(DATABASES).join(', ')}, such as sqlite:data/{source}.db`,
    });
  }
  return open(place, clock);
}
