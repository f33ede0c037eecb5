import { describe, expect, it, onTestFinished } from 'vitest';
import { ConfigError } from '../../../../src/model/errors.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../../src/database/databases.ts';
import { loadOnce } from '../../../support/content-loader.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { limitedRole } from '../../../support/limited-role.ts';

/** Runs what a hint says that an administrator has to run. */
async function granted(address: string, work: () => Promise<unknown>): Promise<string> {
  const refusal = await work().catch((error: unknown) => error);
  if (!(refusal instanceof ConfigError)) throw new Error('it was not refused', { cause: refusal });
  expect(refusal.code).toBe('warehouse_refused');
  const statement = /run: (GRANT [^;]*);/.exec(refusal.hint ?? '')?.[1] ?? '';
  await asOtherClient(address, (client) => client.query(statement));
  return statement;
}

describe.skipIf(POSTGRES.missing !== null)('a role on Postgres that may not make what is needed', () => {
  it('is refused at the start with the GRANT that is missing, and each of them helps', async () => {
    const admin = await POSTGRES.address();
    const { role, address } = await limitedRole(admin);
    const name = new URL(admin).pathname.slice(1);
    await asOtherClient(admin, (client) =>
      client.query(`CREATE SCHEMA blog; CREATE SCHEMA content_sync; GRANT USAGE ON SCHEMA blog TO ${role}`),
    );
    const open = async () => (await openWarehouse(address, systemClock)).close();
    expect(await granted(admin, open)).toBe(`GRANT USAGE, CREATE ON SCHEMA "content_sync" TO "${role}"`);
    expect(await granted(admin, open)).toBe(`GRANT USAGE, CREATE ON SCHEMA "blog" TO "${role}"`);
    await open();
    await asOtherClient(admin, (client) => client.query('DROP SCHEMA blog CASCADE'));
    expect(await granted(admin, open)).toBe(`GRANT CREATE ON DATABASE "${name}" TO "${role}"`);
    await open();
  });

  it('is told the same when a table is made or widened later, and goes on once it may', async () => {
    const admin = await POSTGRES.address();
    const { role, address } = await limitedRole(admin);
    await asOtherClient(admin, (client) =>
      client.query(`CREATE SCHEMA blog; CREATE SCHEMA content_sync AUTHORIZATION ${role};
        GRANT USAGE, CREATE ON SCHEMA blog TO ${role}`),
    );
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    for (const text of ['{"id":"1","n":1}', '{"id":"1","n":"a"}', '{"id":"1","n":"a","list":[1]}']) {
      await asOtherClient(admin, (client) => client.query(`REVOKE CREATE ON SCHEMA blog FROM ${role}`));
      const load = () => loadOnce(warehouse, [text]);
      expect(await granted(admin, load)).toBe(`GRANT USAGE, CREATE ON SCHEMA "blog" TO "${role}"`);
      await load();
    }
    expect(await rowsOf(admin, 'SELECT n FROM content')).toEqual([{ n: 'a' }]);
  });
});
