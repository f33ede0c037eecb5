import { onTestFinished } from 'vitest';
import { asOtherClient } from './databases.ts';

let made = 0;

/** A role that may log in and nothing else, and the address for it; gone when the test is over. */
export async function limitedRole(address: string): Promise<{ role: string; address: string }> {
  const role = `limited_${process.pid}_${(made += 1)}`;
  await asOtherClient(address, (client) => client.query(`CREATE ROLE ${role} LOGIN`));
  // Before the database goes, so that nothing in it is theirs any more: what is registered last runs first.
  onTestFinished(() =>
    asOtherClient(
      address,
      async (client) => void (await client.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`)),
    ),
  );
  return { role, address: asRole(address, role) };
}

/** The same address for another role. */
export function asRole(address: string, role: string): string {
  return address.replace('postgres@', `${role}@`);
}

/** Gives a warehouse with all that is in it to a role, as if that one had made it. */
export function handOver(role: string): string {
  return `ALTER SCHEMA blog OWNER TO ${role}; ALTER SCHEMA content_sync OWNER TO ${role};
    DO $$ DECLARE t record; BEGIN
      FOR t IN SELECT * FROM pg_tables WHERE schemaname IN ('blog', 'content_sync') LOOP
        EXECUTE format('ALTER TABLE %I.%I OWNER TO ${role}', t.schemaname, t.tablename); END LOOP;
      FOR t IN SELECT * FROM pg_views WHERE schemaname = 'blog' LOOP
        EXECUTE format('ALTER VIEW %I.%I OWNER TO ${role}', t.schemaname, t.viewname); END LOOP; END $$`;
}
