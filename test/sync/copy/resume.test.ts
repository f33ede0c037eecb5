import { describe, expect, it } from 'vitest';
import { asOtherClient, POSTGRES } from '../../support/databases.ts';
import { asOther } from '../../support/temp-warehouse.ts';
import { copying, NOTHING_TO_SEE, type Copying } from './copying.ts';

const RECORDS = Array.from({ length: 40 }, (_, at) => `{"id":"r${at}","title":"Title ${at}","tags":["x","y"]}`);

async function stage(): Promise<Copying> {
  const made = await copying();
  await made.load(RECORDS);
  return made;
}

/** Statements on the SQLite file, as a person would run them. */
function onSource({ file }: Copying, statement: string): void {
  asOther(file, (db) => db.exec(statement));
}

function thrown(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'nothing was thrown',
    (error: unknown) => error,
  );
}

async function titleOf({ to }: Copying, id: string): Promise<unknown> {
  const { rows } = await asOtherClient(to, (client) => client.query('SELECT title FROM content WHERE id = $1', [id]));
  return rows[0]?.title;
}

describe.skipIf(POSTGRES.missing !== null)('a copy that was interrupted', () => {
  it('is not there for anybody, and goes on where it was', async () => {
    const made = await stage();
    await made.copyUntil('content');
    const schemas = await asOtherClient(made.to, (client) =>
      client.query(`SELECT nspname FROM pg_namespace WHERE nspname IN ('blog', '_sync_copying_blog')`),
    );
    expect(schemas.rows).toEqual([{ nspname: '_sync_copying_blog' }]);
    // A row that only somebody else can have changed tells that the table was not copied anew.
    await made.onStaging(`UPDATE content SET title = 'marked' WHERE id = 'r1'`);
    const report = await thrown(made.copy());
    expect(report).toMatchObject({ code: 'copy_differs' });
    expect(String(report)).toMatch(/content: 40 rows in SQLite, 40 in Postgres; .*Title 1.* in SQLite is not .*marked/);
    expect(await made.copy()).toMatchObject({ outcome: 'copied', isResumed: true });
    expect(await titleOf(made, 'r1')).toBe('Title 1');
  });

  it('begins anew where the source was written to since', async () => {
    const made = await stage();
    await made.copyUntil('content');
    onSource(made, `UPDATE _sync_leases SET token = token + 1, acquired_at = '2026-11-21 10:00:00.000'`);
    onSource(made, `UPDATE content SET title = 'written since' WHERE id = 'r1'`);
    expect(await made.copy()).toMatchObject({ outcome: 'copied', isResumed: false });
    expect(await titleOf(made, 'r1')).toBe('written since');
  });

  it('tells of a row too many', async () => {
    const made = await stage();
    await made.copyUntil('content');
    await made.onStaging(`INSERT INTO content (id, _hash, _version, _synced_at) VALUES ('more', '', 1, now())`);
    expect(await thrown(made.copy())).toMatchObject({
      code: 'copy_differs',
      message: expect.stringContaining('40 rows in SQLite, 41'),
    });
    expect(await made.copy()).toMatchObject({ outcome: 'copied' });
  });

  it('F141 goes on once a full disk has room again', async () => {
    const made = await stage();
    await made.copyUntil('content');
    await made.onStaging(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE 'no space left on device' USING ERRCODE = '53100'; END $$;
      CREATE TRIGGER full_disk BEFORE INSERT ON _sync_versions EXECUTE FUNCTION full_disk()`);
    expect(await thrown(made.copy())).toMatchObject({
      code: 'warehouse_full',
      hint: expect.stringContaining('resumes'),
    });
    await made.onStaging('DROP FUNCTION full_disk CASCADE');
    expect(await made.copy()).toMatchObject({ outcome: 'copied', isResumed: true });
  });

  it('F138 that ended right after its last step is known to be done', async () => {
    const made = await stage();
    const first = await made.copy();
    expect(await made.copy()).toEqual({ ...first, outcome: 'already', tables: expect.arrayContaining(first.tables) });
    expect(first.tables.every(({ digest }) => /^[0-9a-f]{64}$/.test(digest ?? ''))).toBe(true);
  });
});

describe.skipIf(POSTGRES.missing !== null)('a copy is refused', () => {
  it('T14 row by row where Postgres cannot hold what SQLite does, and goes on once that is mended', async () => {
    const made = await stage();
    onSource(made, `UPDATE content SET title = 'a' || char(0) || 'b' WHERE id IN ('r3', 'r5')`);
    const error = await thrown(made.copy());
    expect(error).toMatchObject({ code: 'copy_refused' });
    const mends = String(error).match(/UPDATE "content" .*?;/g) ?? [];
    expect(mends).toHaveLength(2);
    expect(mends[0]).toContain(`WHERE "id" = 'r3'`);
    mends.forEach((mend) => onSource(made, mend));
    expect(await made.copy()).toMatchObject({ outcome: 'copied', isResumed: true });
    expect(await titleOf(made, 'r3')).toBe('a␀b');
  });

  it.each([
    [`ALTER TABLE content ADD COLUMN mine TEXT`, 'copy_columns', 'a column "mine" of somebody else'],
    [`UPDATE content SET title = CAST(x'ff00' AS BLOB) WHERE id = 'r1'`, 'copy_refused', `"id" = 'r1': bytes`],
    [`UPDATE content SET _synced_at = 'yesterday at noon' WHERE id = 'r1'`, 'copy_refused', 'content._synced_at where'],
    [`UPDATE content SET _synced_at = 'infinity' WHERE id = 'r1'`, 'copy_refused', 'content._synced_at where'],
    [`UPDATE content SET _version = 1.5 WHERE id = 'r1'`, 'copy_refused', 'content._version where'],
  ])('where the SQLite file is not as it was left: %s', async (statement, code, told) => {
    const made = await stage();
    onSource(made, statement);
    expect(await thrown(made.copy())).toMatchObject({ code, message: expect.stringContaining(told) });
  });

  it('where another process may be at work on a resource', async () => {
    const made = await stage();
    onSource(
      made,
      `UPDATE _sync_leases SET owner = 'pid 1 on another', host = 'another', pid = 1, expires_at = '2999-01-01 00:00:00.000'`,
    );
    expect(await thrown(made.copy())).toMatchObject({
      code: 'lease_held',
      message: expect.stringContaining('pid 1 on another'),
    });
  });

  it('where another copy to the same schema is under way', async () => {
    const made = await stage();
    await made.copyUntil('content');
    await made.onStaging(
      `UPDATE _sync_leases SET owner = 'pid 1 on another', host = 'another', pid = 1, expires_at = '2999-01-01'`,
    );
    expect(await thrown(made.copy())).toMatchObject({ code: 'lease_held' });
  });

  it('where somebody makes a table in the schema while the copy grows', async () => {
    const made = await stage();
    const making = Promise.withResolvers<unknown>();
    const make = (): void =>
      making.resolve(asOtherClient(made.to, (client) => client.query('CREATE SCHEMA blog; CREATE TABLE blog.mine ()')));
    // With the first table, so that there is time enough before the end.
    let tables = 0;
    const copied = (): void => ((tables += 1) === 1 ? make() : undefined);
    const error = await thrown(made.copy({ watcher: { ...NOTHING_TO_SEE, copied } }));
    await making.promise;
    expect(error).toMatchObject({ code: 'copy_target_used' });
  });
});
