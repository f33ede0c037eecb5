import { copyFileSync, existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { eventBody, openServingStage, sourceIn, until, type Serving, type ServingStage } from '../support/serving.ts';
import { asOther, rowsIn } from '../support/temp-warehouse.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };
const ENDS = ['', '-wal', '-shm'];

const idsIn = (file: string): string[] =>
  rowsIn(file, 'SELECT delivery_id FROM _sync_deliveries ORDER BY seq').map((row) => String(row['delivery_id']));

describe('serve whose files are moved under its hands', { timeout: 120_000 }, () => {
  let stage: ServingStage;
  let serving: Serving;
  const acknowledged: string[] = [];
  let sent = 0;

  beforeAll(async () => {
    stage = await openServingStage({ sandbox: FEW, database: SQLITE, isInside: true });
    serving = await stage.serve();
    await stage.fresh(serving);
  });
  afterAll(() => stage.close());

  async function deliver(): Promise<number> {
    const id = `msg_${(sent += 1)}`;
    const status = await serving.deliver({ id, body: eventBody({ resource: 'content', id: 'new' }) });
    if (status === 202) acknowledged.push(id);
    return status;
  }

  const isReady = async (): Promise<boolean> => (await serving.page('/readyz')).status === 200;
  const takes = (): Promise<void> => until('taken', async () => (await deliver()) === 202);

  const reopened = (): number => serving.command.logged().split('opening the files of the warehouse anew').length;

  /** That it is told, by `/readyz` and on the page, as long as the file is away. */
  async function expectTold(file: string): Promise<void> {
    expect(await isReady()).toBe(false);
    const { attention } = await serving.status();
    expect(attention).toContainEqual(
      expect.objectContaining({ severity: 'down', source: 'blog', what: expect.stringContaining(file) }),
    );
    expect((await serving.page('/')).body).toContain(path.basename(file));
  }

  async function expectWell(): Promise<void> {
    await takes();
    await until('ready', isReady);
    stage.write('content', 'new', { title: `after ${sent} deliveries` });
    await takes();
    await stage.settled();
    await until('shown well', async () => {
      const { warehouse, webhooks } = sourceIn(await serving.status());
      const problems = [warehouse.problem, webhooks?.problem];
      return problems.every((problem) => problem === null) || problems;
    });
  }

  /** A copy of a database as a person makes one while it is in use. */
  function copyOf(file: string): string {
    const copy = path.join(stage.folder, `copy-${path.basename(file)}`);
    asOther(file, (db) => db.prepare('VACUUM INTO ?').run(copy));
    return copy;
  }

  it('takes nothing into an inbox that was moved away, begins none in its place, and goes on when it is back', async () => {
    const file = stage.inboxFile();
    await takes();
    renameSync(file, `${file}.away`);
    expect(await deliver()).toBe(503);
    await expectTold(file);
    expect(existsSync(file)).toBe(false);
    renameSync(`${file}.away`, file);
    await expectWell();
    expect(idsIn(file)).toEqual(acknowledged);
  });

  it('works on nothing while the warehouse is away, and goes on with it when it is back', async () => {
    const file = stage.file();
    renameSync(file, `${file}.away`);
    await expectTold(file);
    await until('refused', async () => (await deliver()) === 503);
    expect(existsSync(file)).toBe(false);
    renameSync(`${file}.away`, file);
    await expectWell();
  });

  it('goes on with another warehouse that was put in its place', async () => {
    const file = stage.file();
    const copy = copyOf(file);
    const before = reopened();
    renameSync(copy, file);
    await until('opened anew', () => reopened() > before);
    await expectWell();
    expect(rowsIn(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });

  it('goes on with another inbox that was put in its place, and settles nothing there that was read in the old one', async () => {
    const file = stage.inboxFile();
    await takes();
    const copy = copyOf(file);
    asOther(copy, (db) => db.prepare("UPDATE _sync_deliveries SET state = 'waiting', finished_at = NULL").run());
    renameSync(file, `${file}.old`);
    expect(await deliver()).toBe(503);
    await expectTold(file);
    renameSync(copy, file);
    await expectWell();
    expect(idsIn(file)).toEqual(acknowledged);
    expect(rowsIn(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    const left = rowsIn(file, "SELECT count(*) AS n FROM _sync_deliveries WHERE state = 'waiting'");
    expect(left).toEqual([{ n: 0n }]);
  });

  it('takes nothing when all is removed, and goes on with a new and empty file', async () => {
    const file = stage.inboxFile();
    for (const end of ENDS) rmSync(file + end, { force: true });
    expect(await deliver()).toBe(503);
    await expectTold(file);
    expect(readdirSync(stage.folder).filter((name) => name.startsWith(path.basename(file)))).toEqual([
      `${path.basename(file)}.old`,
    ]);
    const before = acknowledged.length;
    writeFileSync(file, '');
    await expectWell();
    expect(idsIn(file)).toEqual(acknowledged.slice(before));
  });

  it('loses nothing that it acknowledged with a log that is removed or copied over', async () => {
    const file = stage.inboxFile();
    const [first = ''] = idsIn(file);
    for (const log of ['removed', 'copied over']) {
      await takes();
      const before = reopened();
      if (log === 'copied over') copyFileSync(`${file}-wal`, `${file}-wal.copy`);
      if (log === 'copied over') renameSync(`${file}-wal.copy`, `${file}-wal`);
      else rmSync(`${file}-wal`);
      await until('opened anew', () => reopened() > before);
      await expectWell();
    }
    expect(idsIn(file)).toEqual(acknowledged.slice(acknowledged.indexOf(first)));
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});
