import { describe, expect, it } from 'vitest';
import type { Responder } from '../extract/listing-server.ts';
import { eitherDatabase } from '../support/databases.ts';
import { ownService, type OwnService } from '../support/own-service.ts';
import { NONE, TALKS, type Entry, type Talk } from '../support/filter-dialects.ts';
import type { TestDatabase } from '../support/databases.ts';
import { sampled } from '../support/length.ts';

const EITHER = eitherDatabase(import.meta.filename);

const DAY = 86_400_000;

interface Stage extends OwnService {
  entries: Map<string, Entry>;
  /** The requests since the last call. */
  asked: () => string[];
  /** The live rows, and what they should be. */
  both: () => Promise<[here: string[], there: string[]]>;
}

/** Forty records of the last two days, behind a service that talks so. */
async function stageOf(database: TestDatabase, talk: Talk, fields: Record<string, unknown> = {}): Promise<Stage> {
  const start = Math.floor(Date.now() / 1_000) * 1_000 - 2 * DAY;
  const entries = new Map<string, Entry>();
  for (let index = 0; index < 40; index += 1) {
    const created = start + index * 3_600_000 + 123;
    const changed = index % 3 === 0 ? created + 1_800_500 : null;
    entries.set(`r${index}`, { id: `r${index}`, title: `Title ${index}`, created, changed });
  }
  const respond: Responder = (url, _, sent) => {
    const id = /^\/v1\/report\/(.+)$/.exec(url.pathname)?.[1];
    if (id === undefined)
      return talk.list([...entries.values()], url.searchParams, sent ?? { method: 'GET', headers: {}, body: '' });
    const found = entries.get(id);
    return found === undefined ? { status: 404, body: {} } : { body: talk.show(found) };
  };
  const page = { style: 'page', page_param: 'page', size: 10, total: 'total' };
  const stage = await ownService(database, { page, item: '/report/{id}', ...talk.fields, ...fields }, respond);
  return {
    ...stage,
    entries,
    asked: () => stage.service.requests.splice(0),
    both: async () => {
      const here = await stage.read((db) =>
        db.prepare<[], string>("SELECT id || ' ' || title FROM report WHERE _deleted_at IS NULL").pluck().all(),
      );
      return [here.toSorted(), [...entries.values()].map(({ id, title }) => `${id} ${title}`).toSorted()];
    },
  };
}

/** Three that change, one that is new, one that goes. */
function churn({ entries }: Stage): void {
  for (const id of ['r1', 'r17', 'r33']) {
    const entry = entries.get(id);
    if (entry !== undefined) entries.set(id, { ...entry, title: `${entry.title}, changed`, changed: Date.now() });
  }
  entries.set('new', { id: 'new', title: 'New', created: Date.now(), changed: null });
}

async function run(stage: Stage, command: 'backfill' | 'sync') {
  const { resources } = await stage.run(command);
  const [{ status, mode, warnings = [] } = { status: 'none', mode: 'none' }] = resources;
  return { status, mode, codes: warnings.map(({ code }) => code) };
}

describe.for(EITHER)('changes, on $name', (database) => {
  it.for(sampled(TALKS, 2))('are found where a service $what', async (talk) => {
    const stage = await stageOf(database, talk);
    expect(await run(stage, 'backfill')).toEqual({ status: 'ok', mode: 'full', codes: [] });
    stage.asked();
    churn(stage);
    expect(await run(stage, 'sync')).toEqual({ status: 'ok', mode: 'incremental', codes: [] });
    expect(stage.asked().length).toBeLessThan(4);
    let [here, there] = await stage.both();
    expect(here).toEqual(there);
    stage.entries.delete('r5');
    stage.entries.delete('r33');
    expect(await run(stage, 'backfill')).toEqual({ status: 'ok', mode: 'full', codes: [] });
    [here, there] = await stage.both();
    expect(here).toEqual(there);
  });

  it.for(
    sampled(
      TALKS.filter(({ wrong }) => wrong !== NONE),
      2,
      1,
    ),
  )('are found by a full walk where a service $what and the profile does not say so', async (talk) => {
    const stage = await stageOf(database, talk, { incremental: talk.wrong });
    expect(await run(stage, 'backfill')).toEqual({ status: 'ok', mode: 'full', codes: talk.told });
    churn(stage);
    expect(await run(stage, 'sync')).toMatchObject({ status: 'ok', mode: 'full', codes: talk.told });
    const [here, there] = await stage.both();
    expect(here).toEqual(there);
  });
});
