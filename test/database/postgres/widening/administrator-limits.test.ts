import { describe, expect, it } from 'vitest';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asRole, limitedRole } from '../../../support/limited-role.ts';
import { ownStage, type OwnStage } from '../../../support/own-stage.ts';

const RECORDS = Array.from({ length: 20 }, (_, at) => ({
  id: at + 1,
  updated_at: '2024-01-01T00:00:00Z',
  slug: `s${at}`,
  status: at % 2 === 0 ? 'published' : 'draft',
}));
const BEFORE = { history: 'all' };
const AFTER = { history: 'all', fields: { slug: { exclude: true } } };

/** A copy, and a role that reads it: by a right of its own, or by the default privileges of `grants`. */
async function limited(limits: (reader: string) => string) {
  const stage = await ownStage(POSTGRES, RECORDS, { content: BEFORE });
  const { role } = await limitedRole(stage.address);
  await asOtherClient(stage.address, (client) =>
    client.query(`ALTER DEFAULT PRIVILEGES IN SCHEMA blog GRANT SELECT ON TABLES TO ${role};
      GRANT USAGE ON SCHEMA blog TO ${role}; GRANT SELECT ON content TO ${role}; ${limits(role)}`),
  );
  const asReader = asRole(stage.address, role);
  return { stage, role, read: (query: string) => rowsOf(asReader, query).catch((error: unknown) => String(error)) };
}

const POLICY = (role: string): string => `ALTER TABLE content ENABLE ROW LEVEL SECURITY;
  CREATE POLICY "only ""published" ON content AS RESTRICTIVE FOR SELECT TO ${role}, CURRENT_USER USING (status = 'published');
  CREATE POLICY everything ON content USING (true) WITH CHECK (id > '0')`;
const TRIGGER = `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
  CREATE TRIGGER noted AFTER UPDATE ON content FOR EACH ROW EXECUTE FUNCTION nothing();
  CREATE TRIGGER silent AFTER UPDATE ON content FOR EACH ROW EXECUTE FUNCTION nothing();
  ALTER TABLE content DISABLE TRIGGER silent`;
const COLUMNS = (role: string): string =>
  `REVOKE ALL ON content FROM ${role}; GRANT SELECT (id, status) ON content TO ${role}`;

const STATUSES = 'SELECT DISTINCT status FROM content';
const AS_SET = `SELECT policyname AS name, permissive, roles::text, cmd, qual, with_check FROM pg_policies
  UNION ALL SELECT tgname, tgenabled::text, '', '', pg_get_triggerdef(oid), '' FROM pg_trigger
    WHERE tgrelid = 'content'::regclass AND NOT tgisinternal
  UNION ALL SELECT 'security', relrowsecurity::text, relforcerowsecurity::text, '', '', '' FROM pg_class
    WHERE oid = 'content'::regclass
  ORDER BY name`;

async function rebuilt(stage: OwnStage) {
  stage.setProfile({ resources: { content: AFTER } });
  return stage.command('rebuild', 'content');
}

describe.skipIf(POSTGRES.missing !== null)('limits that an administrator set on a copied table', () => {
  it('are as before after a rebuild: row level security, policies and triggers', async () => {
    const { stage, read } = await limited((role) => `${POLICY(role)}; ${TRIGGER}`);
    const before = await rowsOf(stage.address, AS_SET);
    expect(await read(STATUSES)).toEqual([{ status: 'published' }]);
    expect((await rebuilt(stage)).code).toBe(0);
    expect(await read(STATUSES)).toEqual([{ status: 'published' }]);
    expect(await rowsOf(stage.address, AS_SET)).toEqual(before);
  });

  it('are as before after a rebuild: rights on columns alone, which default privileges would widen', async () => {
    const { stage, read } = await limited(COLUMNS);
    expect((await rebuilt(stage)).code).toBe(0);
    expect(await read(STATUSES)).toHaveLength(2);
    expect(await read('SELECT updated_at FROM content')).toContain('permission denied');
  });

  it('keep a rebuild from happening if their column is gone by then', async () => {
    const { stage, read } = await limited(
      (role) =>
        `ALTER TABLE content ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON content TO ${role} USING (slug = 's2')`,
    );
    const { code, stderr } = await rebuilt(stage);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/column "slug" does not exist.*\[table_in_use\]/)]);
    expect(await read('SELECT id FROM content')).toHaveLength(1);
  });

  it.each([
    ['policies', POLICY, /policy "only ""published" of content, policy everything of content, row level security of/],
    ['triggers', () => TRIGGER, /trigger noted of content/],
    ['rights on columns', COLUMNS, /revoked rights of limited_\w+ of content, rights on column id of content/],
    ['revoked rights', (role: string) => `REVOKE SELECT ON content FROM ${role}`, /revoked rights of limited_\w+ of/],
    ['publications', () => 'CREATE PUBLICATION elsewhere FOR TABLE content', /publication elsewhere of content/],
  ])('refuse a restart that would end them: %s', async (_, limits, named) => {
    const { stage, read } = await limited(limits);
    const before = await read(STATUSES);
    const { code, stderr } = await stage.command('backfill', 'content', '--restart');
    expect([code, stderr]).toEqual([2, expect.stringMatching(named)]);
    expect(stderr).toContain('[table_in_use]');
    expect(await read(STATUSES)).toEqual(before);
  });

  it('are kept on the views by a sync that adds a column', async () => {
    const { stage, role, read } = await limited(POLICY);
    await asOtherClient(stage.address, (client) =>
      client.query(`ALTER VIEW content_live SET (security_invoker = true, security_barrier = true);
        GRANT SELECT ON content_live TO ${role}`),
    );
    expect(await read('SELECT DISTINCT status FROM content_live')).toEqual([{ status: 'published' }]);
    stage.service.put({ id: 99, updated_at: '2025-01-01T00:00:00Z', status: 'draft', subtitle: 'new' });
    await stage.walk('sync');
    expect(await rowsOf(stage.address, 'SELECT count(subtitle)::int AS n FROM content_live')).toEqual([{ n: 1 }]);
    expect(await read('SELECT DISTINCT status FROM content_live')).toEqual([{ status: 'published' }]);
  });
});
