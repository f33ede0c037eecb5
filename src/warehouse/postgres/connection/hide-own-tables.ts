import { escapeIdentifier } from 'pg';
import type { Session } from './session.ts';

/**
 * Takes tables of ours from the roles that may read what comes to be in the schema, in the transaction that makes them.
 * Those that a person has granted to other roles stay so.
 */
export async function hideOwnTables({ execute }: Session, schema: string): Promise<void> {
  const { rows } = await execute<{ name: string; role: string }>(
    `SELECT relation.relname AS name, reader.rolname AS role
      FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS given
      JOIN pg_roles AS reader ON reader.oid = given.grantee
      WHERE relation.relnamespace = $1::regnamespace AND starts_with(relation.relname, '_sync_')
        AND relation.relkind = 'r' AND given.grantee <> relation.relowner AND given.grantee IN (
          SELECT later.grantee FROM pg_default_acl AS usual CROSS JOIN LATERAL aclexplode(usual.defaclacl) AS later
          WHERE usual.defaclnamespace = $1::regnamespace AND usual.defaclobjtype = 'r')`,
    [escapeIdentifier(schema)],
  );
  for (const { name, role } of rows) {
    await execute(`REVOKE ALL ON ${escapeIdentifier(schema)}.${escapeIdentifier(name)} FROM ${escapeIdentifier(role)}`);
  }
}
