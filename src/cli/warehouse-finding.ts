import { sql } from 'kysely';
import type { App } from '../app.ts';
import type { Finding } from '../sync/check/finding.ts';
import { shownPlace } from '../warehouse/shown-place.ts';

/** Where the copy is kept, as it was found; by now it is open. */
export async function warehouseFinding({ source, warehouse }: Pick<App, 'source' | 'warehouse'>): Promise<Finding> {
  const place = shownPlace(source.warehouse);
  if (!place.startsWith('postgres:')) return { check: 'warehouse', status: 'ok', detail: place };
  const { rows } = await sql<{ version: string; role: string }>`
    SELECT current_setting('server_version') AS version, current_user AS role`.execute(warehouse.own);
  const server = rows.map(({ version, role }) => `, Postgres ${version}, as role ${role}`).join('');
  return { check: 'warehouse', status: 'ok', detail: `${place}${server}` };
}
