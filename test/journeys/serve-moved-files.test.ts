import { existsSync, renameSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { eventBody, openServingStage, sourceIn, until, type Serving, type ServingStage } from '../support/serving.ts';
import { rowsIn } from '../support/temp-warehouse.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

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

  /** That it is told, by `/readyz` and on the page, as long as the file is away. */
  async function expectTold(file: string): Promise<void> {
    await until('not ready', async () => !(await isReady()));
    const isTold = (what: string): boolean => what.includes(file);
    await until('told', async () => (await serving.status()).attention.some(({ what }) => isTold(what)));
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
    expect(existsSync(file)).toBe(false);
    renameSync(`${file}.away`, file);
    await expectWell();
  });
});
