import path from 'node:path';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { openSqlite } from './sqlite/open.ts';
import type { Warehouse } from './warehouse.ts';

type OpenWarehouse = (address: string, clock: Clock) => Promise<Warehouse>;

/** By the scheme of the `warehouse` setting; a further database is a further row. */
const DATABASES: Readonly<Record<string, OpenWarehouse>> = {
  sqlite: (address, clock) => openSqlite(path.resolve(address), clock),
};

/** Opens the warehouse of one source; `{source}` in the setting stands for its name. */
export function openWarehouse(setting: string, source: string, clock: Clock): Promise<Warehouse> {
  const [, scheme = '', address = ''] = /^([a-z]+):(.*)$/.exec(setting) ?? [];
  const open = DATABASES[scheme];
  if (open === undefined) {
    throw new ConfigError('config_invalid', `warehouse: no database is known by "${scheme}:"`, {
      hint: `use one of ${Object.keys(DATABASES).join(', ')}, such as sqlite:data/{source}.db`,
    });
  }
  return open(address.replaceAll('{source}', source), clock);
}
