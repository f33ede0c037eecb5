import { describe, expect, it } from 'vitest';
import { asOtherClient, POSTGRES } from '../../support/databases.ts';
import { asOther } from '../../support/temp-warehouse.ts';
import { copying, type Copying } from './copying.ts';

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

/** A trigger for the rows of _sync_versions, an internal table that an interrupted copy has left. */
function onInsert(action: string): string {
  return `CREATE FUNCTION on_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${action}; END $$;
    CREATE TRIGGER on_insert BEFORE INSERT ON _sync_versions FOR EACH ROW EXECUTE FUNCTION on_insert()`;
}

async function titleOf({ to }: Copying, id: string): Promise<unknown> {
  const { rows } = await asOtherClient(to, (client) => client.query('SELECT title FROM content WHERE id = $1', [id]));
  return rows[0]?.title;
}

describe.skipIf(POSTGRES.missing !== null)('a copy that was interrupted', () => {
  it('is visible to nobody, and starts from the beginning', async () => {
    const made = await stage();
    await made.copyUntil('content');
    expect(await thrown(titleOf(made, 'r1'))).toMatchObject({ code: '42P01' });
    onSource(made, `UPDATE content SET title = 'written since' WHERE id = 'r2'`);
    expect(await made.copy()).toContainEqual({ table: 'content', rows: RECORDS.length });
    expect([await titleOf(made, 'r1'), await titleOf(made, 'r2')]).toEqual(['Title 1', 'written since']);
  });

  it('F141 succeeds once a full disk has room again', async () => {
    const made = await stage();
    await made.copyUntil('content');
    await made.onTarget(onInsert(`RAISE 'no space left on device' USING ERRCODE = '53100'`));
    expect(await thrown(made.copy())).toMatchObject({ code: 'warehouse_full' });
    await made.onTarget('DROP FUNCTION on_insert CASCADE');
    expect(await made.copy()).toContainEqual({ table: 'content', rows: RECORDS.length });
  });
});

describe.skipIf(POSTGRES.missing !== null)('a copy is compared', () => {
  it.each([
    [`NEW.body := 'other'; RETURN NEW`, '40 rows in SQLite, 40 in Postgres, with other values'],
    [`IF NEW.id = 'r7' THEN RETURN NULL; END IF; RETURN NEW`, '40 rows in SQLite, 39 in Postgres'],
  ])('and does not appear if Postgres stores something else: %s', async (action, difference) => {
    const made = await stage();
    await made.copyUntil('content');
    await made.onTarget(onInsert(action));
    expect(await thrown(made.copy())).toMatchObject({
      code: 'copy_differs',
      message: expect.stringContaining(`_sync_versions: the copy is not equal: ${difference}`),
    });
    expect(await thrown(titleOf(made, 'r1'))).toMatchObject({ code: '42P01' });
    await made.onTarget('DROP FUNCTION on_insert CASCADE');
    await made.copy();
    expect(await titleOf(made, 'r1')).toBe('Title 1');
  });
});

describe.skipIf(POSTGRES.missing !== null)('a copy is refused', () => {
  it('T14 row by row where Postgres cannot hold what SQLite does, and succeeds once that is fixed', async () => {
    const made = await stage();
    onSource(made, `UPDATE content SET title = 'a' || char(0) || 'b' WHERE id IN ('r3', 'r5')`);
    const error = await thrown(made.copy());
    expect(error).toMatchObject({ code: 'copy_refused' });
    expect(String(error)).toMatch(/content\.title where "id" = 'r3': a NUL.*\n.*"id" = 'r5'/);
    onSource(made, `UPDATE content SET title = 'a␀b' WHERE id IN ('r3', 'r5')`);
    await made.copy();
    expect(await titleOf(made, 'r3')).toBe('a␀b');
  });

  it.each([
    [`ALTER TABLE content ADD COLUMN mine TEXT`, 'copy_columns', 'a column "mine" that content-sync did not make'],
    [`UPDATE content SET title = CAST(x'ff00' AS BLOB) WHERE id = 'r1'`, 'copy_refused', `"id" = 'r1': bytes`],
    [`UPDATE content SET _synced_at = 'yesterday at noon' WHERE id = 'r1'`, 'copy_refused', 'content._synced_at where'],
    [`UPDATE content SET _synced_at = 'infinity' WHERE id = 'r1'`, 'copy_refused', 'content._synced_at where'],
    [`UPDATE content SET _version = 1.5 WHERE id = 'r1'`, 'copy_refused', 'content._version where'],
  ])('where the SQLite file is not as it was left: %s', async (statement, code, told) => {
    const made = await stage();
    onSource(made, statement);
    expect(await thrown(made.copy())).toMatchObject({
      code,
      message: expect.stringContaining(told),
    });
  });
});
