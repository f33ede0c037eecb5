import { asOther } from '../support/temp-warehouse.ts';
import { expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { noTracing, replayTrace, tracedInto } from './traced-disk.ts';
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type Database from 'better-sqlite3';
import { SQLITE } from '../support/databases.ts';
import { eventBody, type Serving, servingStage, type ServingStage, until } from '../support/serving.ts';

/** What power cuts at every sync of the inbox would leave. */
interface PowerCuts {
  cuts: number;
  /** Deliveries that are done after the last one. */
  done: number;
  /** Deliveries that are done after some cut although the row that came of them is not there. */
  lost: Set<string>;
}

/** Runs `serve` on files, has it told of `deliveries` changes, and cuts the power at every moment that counts. */
async function powerCuts(deliveries: number): Promise<PowerCuts> {
  const stage = await servingStage({
    database: SQLITE,
    sandbox: { generate: { content: 3, images: 0, analytics: 0 } },
    source: { resources: ['content'] },
  });
  const trace = path.join(stage.folder, 'trace.txt');
  const serving = await stage.serve({ shell: tracedInto(trace) });
  await stage.fresh(serving);
  for (let number = 0; number < deliveries; number += 2) await tellTwo(stage, serving, number);
  await serving.stop('SIGKILL');
  await until('written to its end', () =>
    readFileSync(trace, 'latin1').trimEnd().endsWith('+++ killed by SIGKILL +++'),
  );
  return judged(stage, trace);
}

/** Two at once, so that what is settled together is tried too; no two about the same record. */
async function tellTwo(stage: ServingStage, serving: Serving, number: number): Promise<void> {
  const told = [number, number + 1].map(async (one) => {
    const id = `told_${one}`;
    stage.write('content', id, { title: id });
    await serving.deliver({ id, body: eventBody({ resource: 'content', id }) });
  });
  await Promise.all(told);
  await until('worked on', async () => (await stage.readInbox(doneIn)).length === number + 2);
}

async function judged(stage: ServingStage, trace: string): Promise<PowerCuts> {
  const cuts: PowerCuts = { cuts: 0, done: 0, lost: new Set() };
  const folder = path.join(stage.folder, 'after-the-cut');
  await replayTrace(trace, (file, cut) => {
    if (!file.startsWith(stage.inboxFile())) return;
    cut(folder);
    const done = asOther(path.join(folder, path.basename(stage.inboxFile())), doneIn);
    const rows = new Set(asOther(path.join(folder, path.basename(stage.file())), titlesIn));
    for (const id of done) if (!rows.has(id)) cuts.lost.add(id);
    cuts.cuts += 1;
    cuts.done = done.length;
    rmSync(folder, { recursive: true });
  });
  return cuts;
}

function doneIn(db: Database.Database): string[] {
  return names(db, '_sync_deliveries', `SELECT delivery_id FROM _sync_deliveries WHERE state = 'done'`);
}

function titlesIn(db: Database.Database): string[] {
  return names(db, 'content', `SELECT title FROM content WHERE title = id`);
}

function names(db: Database.Database, table: string, query: string): string[] {
  const isThere = db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
  return isThere ? db.prepare<[], string>(query).pluck().all() : [];
}

it(
  'F121 a delivery is not done before its row would survive a power cut',
  { timeout: longOrShort(3_600_000, 180_000) },
  async (context) => {
    const reason = noTracing();
    if (reason !== null) context.skip(reason);
    const deliveries = longOrShort(300, 6);
    const { cuts, done, lost } = await powerCuts(deliveries);
    expect([...lost]).toEqual([]);
    expect(done).toBe(deliveries);
    expect(cuts).toBeGreaterThan(6);
  },
);
