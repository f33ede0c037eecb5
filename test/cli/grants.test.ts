import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { grantsCommand } from '../../src/cli/warehouse.ts';
import { openInbox } from '../../src/database/databases.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { asOtherClient, POSTGRES, postgresDatabase, preparedPostgres } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

let made = 0;

/** The name of a role that no other test has: they belong to the whole server. Gone, with its rights, after the test. */
function roleName(address: string, name: string): string {
  made += 1;
  const role = `${name}_${process.pid}_${made}_${Date.now().toString(36)}`;
  onTestFinished(() =>
    asOtherClient(address, async (client) => {
      const there = await client.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [role]);
      if (there.rowCount !== 0) await client.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
    }),
  );
  return role;
}

/** A database of its own, for roles hold on to what they may read, and the schema is called `blog`. */
const OWN_DATABASE = { ...POSTGRES, setting: async () => `${await preparedPostgres()}?schema=blog` };

async function copied(): Promise<Journey> {
  const blog = await journey({
    database: OWN_DATABASE,
    sandbox: { generate: { content: 6, images: 2, analytics: 2 } },
  });
  await blog.run('backfill');
  return blog;
}

/** A copy made by a role that may make schemas in its database, and nothing else; and the name of one that is missing. */
async function writtenByMereRole(): Promise<{ theirs: Journey; writer: string; bi: string }> {
  const url = new URL(await postgresDatabase());
  const [writer, bi] = [roleName(url.href, 'writer'), roleName(url.href, 'bi')];
  const database = url.pathname.slice(1);
  await asOtherClient(url.href, (client) =>
    client.query(`CREATE ROLE ${writer} LOGIN; GRANT CREATE ON DATABASE ${database} TO ${writer}`),
  );
  url.username = writer;
  const setting = (): Promise<string> => Promise.resolve(`${url.href}?schema=blog`);
  const sandbox = { generate: { content: 1, images: 0, analytics: 0 } };
  const theirs = await journey({ database: { ...POSTGRES, setting }, sandbox });
  await theirs.run('backfill', { resources: ['content'] });
  return { theirs, writer, bi };
}

function asAdmin(blog: Journey, statements: string): Promise<unknown> {
  const url = new URL(blog.address);
  url.username = 'postgres';
  return asOtherClient(url.href, (client) => client.query(statements));
}

const grants = (blog: Journey, ...args: string[]) =>
  runInProcess(grantsCommand, [...args, '--config', blog.config], blog.folder);

/** What a login with this role may do: the rows of a query, or the SQLSTATE with which it is refused. */
async function asReader(blog: Journey, login: string, ...queries: string[]): Promise<unknown[]> {
  const url = new URL(blog.address);
  url.searchParams.delete('schema');
  url.username = login;
  const client = new Client({ connectionString: url.href });
  await client.connect();
  try {
    const answers: unknown[] = [];
    for (const text of queries) {
      const asked = client.query(text);
      answers.push(
        await asked.then(
          ({ rows }) => rows,
          ({ code }: { code?: string }) => code,
        ),
      );
    }
    return answers;
  } finally {
    await client.end();
  }
}

const REFUSED = '42501';
/** What nobody may do to such a view, or to one without such a column, is said first. */
const NOBODYS = ['55000', '42809', '42703'];
/** What the layer for analysts consists of, besides the tables: each is to be there and read. */
const VIEWS = ['calendar', 'content_live', 'content_summary', 'content_tags_live', 'images_live', 'sync_deletes'];
const ABOUT = ['sync_dictionary', 'sync_freshness', 'sync_schema_log'];

/** A role that reads, made by the command, and a login that has it. */
async function withReader(blog: Journey): Promise<{ bi: string; ann: string }> {
  const [bi, ann] = [roleName(blog.address, 'bi'), roleName(blog.address, 'ann')];
  const { code, stdout } = await grants(blog, '--role', bi);
  expect([code, stdout]).toEqual([0, expect.stringContaining(`${bi} was created without a login`)]);
  await asOtherClient(blog.address, (client) => client.query(`CREATE ROLE ${ann} LOGIN IN ROLE ${bi}`));
  return { bi, ann };
}

describe.runIf(POSTGRES.missing === null)('F146 a role that reads', () => {
  it('F146 reads copied tables and freshness, and neither writes nor sees anything that is ours alone', async () => {
    const blog = await copied();
    const inbox = await openInbox(blog.address, systemClock);
    await inbox.close();
    const { ann } = await withReader(blog);
    const names = await asOtherClient(blog.address, async (client) => {
      const text =
        "SELECT relname AS name FROM pg_class WHERE relnamespace = 'blog'::regnamespace AND relkind IN ('r', 'v')";
      return (await client.query<{ name: string }>(text)).rows.map(({ name }) => name);
    });
    const own = names.filter((name) => name.startsWith('_sync_'));
    expect(own).toEqual(expect.arrayContaining(['_sync_versions', '_sync_deliveries', '_sync_migrations']));
    for (const name of own) {
      expect([name, await asReader(blog, ann, `SELECT * FROM blog."${name}" LIMIT 1`)]).toEqual([name, [REFUSED]]);
    }
    const others = names.filter((name) => !name.startsWith('_sync_'));
    expect(others).toEqual(expect.arrayContaining(['content', 'content_tags', 'images', ...VIEWS, ...ABOUT]));
    for (const name of others) {
      const table = `blog."${name}"`;
      const [read, ...written] = await asReader(
        blog,
        ann,
        `SELECT * FROM ${table}`,
        `DELETE FROM ${table}`,
        `TRUNCATE ${table}`,
        `ALTER TABLE ${table} RENAME TO x`,
        `DROP TABLE ${table}`,
        `DROP VIEW ${table}`,
        `INSERT INTO ${table} DEFAULT VALUES`,
        `CREATE RULE mine AS ON INSERT TO ${table} DO INSTEAD NOTHING`,
        `COMMENT ON COLUMN ${table}.id IS 'mine'`,
      );
      expect([name, read]).toEqual([name, expect.any(Array)]);
      const failed = written.filter((code) => typeof code === 'string' && [REFUSED, ...NOBODYS].includes(code));
      expect([name, failed]).toEqual([name, written]);
    }
    expect(await asReader(blog, ann, 'SELECT resource FROM blog.sync_freshness ORDER BY 1')).toEqual([
      [{ resource: 'analytics' }, { resource: 'content' }, { resource: 'images' }],
    ]);
  });

  it('F146 gets at nothing of ours by any other way: functions, schemas, what it makes itself', async () => {
    const blog = await copied();
    const { ann } = await withReader(blog);
    const { functions, shared } = await asOtherClient(blog.address, async (client) => {
      const text = (query: string) =>
        client.query<{ text: string }>(query).then(({ rows }) => rows.map((row) => row.text));
      return {
        functions: await text(`SELECT oid::regprocedure::text AS text FROM pg_proc
          WHERE pronamespace = 'blog'::regnamespace AND (prosecdef OR NOT has_function_privilege('${ann}', oid, 'EXECUTE'))`),
        shared: await text(`SELECT oid::regclass::text AS text FROM pg_class
          WHERE relnamespace = 'content_sync'::regnamespace AND relkind IN ('r', 'v', 'S')`),
      };
    });
    // None runs with the rights of who made it, and all may be called.
    expect(functions).toEqual([]);
    expect(shared.length).toBeGreaterThan(0);
    const refused = [
      ...shared.map((name) => `SELECT * FROM ${name}`),
      'CREATE TABLE blog.mine (a int)',
      'CREATE VIEW blog.mine AS SELECT 1',
      "CREATE FUNCTION blog.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
      'CREATE SEQUENCE blog.mine',
      'ALTER SCHEMA blog RENAME TO mine',
      'CREATE TABLE content_sync.mine (a int)',
      'CREATE SCHEMA mine',
      'COPY blog._sync_versions TO STDOUT',
      'SELECT * FROM blog.content FOR UPDATE',
    ];
    expect(await asReader(blog, ann, ...refused)).toEqual(refused.map(() => REFUSED));
    // What it makes for itself shows what it may see, and no more.
    const own = await asReader(
      blog,
      ann,
      'CREATE TEMPORARY VIEW theirs AS SELECT * FROM blog._sync_versions',
      'SELECT * FROM theirs',
    );
    expect(own[1]).toBe(REFUSED);
    const asOf = await asReader(blog, ann, 'SELECT count(*)::int AS n FROM blog.content_as_of(now())');
    expect(asOf).toEqual([[{ n: 6 }]]);
  });

  it('is granted as often as wanted, and reads nothing any more once that is revoked', async () => {
    const blog = await copied();
    const { bi, ann } = await withReader(blog);
    const again = await grants(blog, '--role', bi, '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ source: 'blog', schema: 'blog', role: bi, role_made: false });
    // What somebody gave away by mistake is taken back.
    await asOtherClient(blog.address, (client) => client.query(`GRANT ALL ON blog._sync_versions TO ${bi}`));
    await grants(blog, '--role', bi, '--source', 'blog');
    expect(await asReader(blog, ann, 'SELECT 1 FROM blog._sync_versions')).toEqual([REFUSED]);
    // Tables and views that are made again are readable too.
    await blog.run('backfill', { restart: true });
    const later = await asReader(
      blog,
      ann,
      'SELECT 1 FROM blog.content LIMIT 1',
      'SELECT 1 FROM blog.content_live LIMIT 1',
    );
    expect(later).toEqual([expect.any(Array), expect.any(Array)]);
    const revoked = await grants(blog, '--role', bi, '--revoke');
    expect(revoked).toMatchObject({ code: 0, stdout: expect.stringMatching(/may no longer read the \d+ tables/) });
    await blog.run('backfill', { restart: true });
    expect(await asReader(blog, ann, 'SELECT 1 FROM blog.content')).toEqual([REFUSED]);
    // Nothing is left that would keep the role from being dropped.
    await asOtherClient(blog.address, (client) => client.query(`DROP ROLE ${ann}; DROP ROLE ${bi}`));
  });

  it('is made by an administrator where content-sync may not: it says with which statement', async () => {
    const { theirs, writer, bi } = await writtenByMereRole();
    await expect(grants(theirs, '--role', bi)).rejects.toMatchObject({
      code: 'warehouse_refused',
      hint: expect.stringContaining(`CREATE ROLE "${bi}" NOLOGIN`),
    });
    await asAdmin(theirs, `CREATE ROLE ${bi} NOLOGIN`);
    expect(await grants(theirs, '--role', bi)).toMatchObject({ code: 0 });
    await expect(grants(theirs, '--role', writer)).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('content-sync warehouse grants', () => {
  it('says on SQLite why not', async () => {
    const blog = await journey();
    const ended = await blog.command('grants', '--role', 'bi');
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toMatch(/SQLite knows no roles \[usage\]\n.*rights of files/);
  });

  it.each(['public', 'pg_read_all_data', 'x'.repeat(64), ''])('refuses %j as the name of a role', async (role) => {
    const blog = await journey();
    await expect(grants(blog, '--role', role)).rejects.toMatchObject({ code: 'usage' });
  });
});
