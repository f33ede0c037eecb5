import { describe, expect, it } from 'vitest';
import { eitherDatabase, type TestDatabase, USUAL } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';
import type { Responder } from '../extract/listing-server.ts';

/** A record of a service whose listing is capped. */
interface CappedRecord {
  id: string;
  title: string;
  /** Epoch milliseconds; null for one without a time. */
  updated: number | null;
}

/** How it behaves; what is left out is what a healthy one does. */
interface CappedBehaviour {
  /** The most records that one query lists, whatever there are. */
  cap: number;
  /** True if the total is that of what it lists, and not of what it has found. */
  hidesTotal?: boolean;
  ignores?: 'since' | 'until' | 'both' | 'format';
  /** True if it refuses to list without a window. */
  needsWindow?: boolean;
  /** Compares behind `since` and before `until` only, where it is true. */
  isExclusive?: boolean;
}

/** Lists `/v1/report?since&until&page&limit` in the order of ids, and no more than its cap. */
function cappedService(records: Map<string, CappedRecord>, behaviour: CappedBehaviour): Responder {
  return (url) => {
    const id = /^\/v1\/report\/(.+)$/.exec(url.pathname)?.[1];
    if (id !== undefined) {
      const found = records.get(id);
      return found === undefined ? { status: 404, body: {} } : { body: shown(found) };
    }
    const { ignores, isExclusive = false } = behaviour;
    const asked = (name: 'since' | 'until'): number | null => {
      const text = url.searchParams.get(name);
      return text === null || ignores === name || ignores === 'both' ? null : Date.parse(text);
    };
    const [since, until] = [asked('since'), asked('until')];
    if (behaviour.needsWindow === true && !url.searchParams.has('since')) return { status: 400, body: {} };
    const found = [...records.values()].filter(({ updated }) => {
      if (since === null && until === null) return true;
      if (ignores === 'format' || updated === null) return false;
      const isBehind = since === null || (isExclusive ? updated > since : updated >= since);
      return isBehind && (until === null || (isExclusive ? updated < until : updated <= until));
    });
    const listed = found.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, behaviour.cap);
    const [page, limit] = [Number(url.searchParams.get('page')), Number(url.searchParams.get('limit'))];
    const total = behaviour.hidesTotal === true ? listed.length : found.length;
    return { body: { data: listed.slice((page - 1) * limit, page * limit).map(shown), total } };
  };
}

function shown({ id, title, updated }: CappedRecord): object {
  return { id, title, updated_at: updated === null ? null : new Date(updated).toISOString() };
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Math.floor(Date.now() / 1_000) * 1_000;

/** A hundred days with a record each, and forty that changed within one hour. */
function hundredDays(): Map<string, CappedRecord> {
  const records = new Map<string, CappedRecord>();
  const put = (id: string, updated: number): void => void records.set(id, { id, title: `Title of ${id}`, updated });
  for (let day = 0; day < 100; day += 1) put(`d${day}`, NOW - 100 * DAY + day * DAY + 17 * HOUR);
  for (let nth = 0; nth < 40; nth += 1) put(`h${nth}`, NOW - 50 * DAY + nth * 90_000);
  return records;
}

const WINDOWED = {
  param: 'since',
  until_param: 'until',
  format: "yyyy-MM-dd'T'HH:mm:ssXXX",
  window: '10d',
  start: new Date(NOW - 60 * DAY).toISOString().slice(0, 10),
  most: 30,
};

async function stageOf(
  database: TestDatabase,
  behaviour: CappedBehaviour,
  incremental: Record<string, unknown> = {},
  records = hundredDays(),
) {
  const page = { style: 'page', page_param: 'page', size: 10, total: 'total' };
  const fields = { page, item: '/report/{id}', incremental: { ...WINDOWED, ...incremental } };
  const stage = await ownService(database, fields, cappedService(records, behaviour));
  const run = async (command: 'backfill' | 'sync', signal?: AbortSignal) => {
    const { resources } = await stage.run(command, signal === undefined ? {} : { signal });
    const [{ status, mode, warnings = [] } = { status: 'none', mode: 'none' }] = resources;
    return { status, mode, messages: warnings.map(({ code, message }) => `${code}: ${message}`) };
  };
  const unlike = async (): Promise<string[]> => {
    const rows = await stage.read((db) =>
      db.prepare<[], string>("SELECT id || ' ' || title FROM report WHERE _deleted_at IS NULL").pluck().all(),
    );
    const there = new Set([...records.values()].map(({ id, title }) => `${id} ${title}`));
    return [...new Set(rows).symmetricDifference(there)];
  };
  return { ...stage, records, run, unlike, asked: () => stage.service.requests.splice(0) };
}

const OK = { status: 'ok', messages: [] };

describe.for(eitherDatabase(import.meta.filename))('a listing that is capped per query, on $name', (database) => {
  const CAPPED: [what: string, behaviour: CappedBehaviour, incremental: Record<string, unknown>][] = [
    ['that tells the total', { cap: 30 }, {}],
    ['that is asked by days', { cap: 60, hidesTotal: true }, { format: 'yyyy-MM-dd', most: 60 }],
    ['that hides it', { cap: 30, hidesTotal: true }, {}],
    ['that leaves out both ends of a window', { cap: 30, hidesTotal: true, isExclusive: true }, {}],
    ['that lists nothing without a window', { cap: 30, needsWindow: true }, {}],
    ['with all of these', { cap: 30, hidesTotal: true, isExclusive: true, needsWindow: true }, {}],
  ];
  // The last ones are those before them at once.
  it.for(longOrShort(CAPPED, [...CAPPED.slice(0, 2), ...CAPPED.slice(-1)]))(
    'is copied window after window: one %s',
    async ([, behaviour, incremental]) => {
      const stage = await stageOf(database, behaviour, incremental);
      expect(await stage.run('backfill')).toEqual({ ...OK, mode: 'full' });
      expect(await stage.unlike()).toEqual([]);
      stage.asked();
      for (const id of ['d3', 'h5', 'new'])
        stage.records.set(id, { id, title: 'changed', updated: Date.now() - 1_000 });
      expect(await stage.run('sync')).toEqual({ ...OK, mode: 'incremental' });
      expect(stage.asked().length).toBeLessThan(5);
      expect(await stage.unlike()).toEqual([]);
      for (const id of ['d90', 'h7', 'new']) stage.records.delete(id);
      expect(await stage.run('backfill')).toEqual({ ...OK, mode: 'full' });
      expect(await stage.unlike()).toEqual([]);
    },
  );
});

describe('windows', () => {
  it.each<[what: string, behaviour: CappedBehaviour, told: RegExp]>([
    [
      'no window is read',
      { cap: 1_000, ignores: 'both' },
      /^end_unproved: the window from .* lists what changed long before/,
    ],
    ['no end of a window is read', { cap: 30, hidesTotal: true, ignores: 'until' }, /^end_unproved: the window/],
    [
      'the form of a moment is not read',
      { cap: 30, ignores: 'format' },
      /^end_unproved: the window around .* does not list/,
    ],
    [
      'the form is not read, and nothing is listed without',
      { cap: 30, ignores: 'format', needsWindow: true },
      /^end_unproved: no window lists any record/,
    ],
  ])('are not believed where %s', async (_, behaviour, told) => {
    const stage = await stageOf(USUAL, behaviour);
    const { status, messages } = await stage.run('backfill');
    expect([status, messages]).toEqual(['partial', expect.arrayContaining([expect.stringMatching(told)])]);
    expect(stage.asked().length).toBeLessThan(100);
  });

  it('tell that more share one moment than are listed', async () => {
    const stage = await stageOf(USUAL, { cap: 30, hidesTotal: true });
    for (let nth = 0; nth < 40; nth += 1)
      stage.records.set(`t${nth}`, { id: `t${nth}`, title: 'tie', updated: NOW - 30 * DAY });
    const { status, messages } = await stage.run('backfill');
    expect([status, messages]).toEqual(['partial', [expect.stringMatching(/as many records as incremental.most/)]]);
    expect(stage.asked().length).toBeLessThan(200);
  });

  const LISTED: [what: string, hidesTotal: boolean, order: number][] = [
    ['in any order', true, 0],
    ['of a known number', false, 0],
    ['the oldest first', true, 1],
    ['the newest first', true, -1],
  ];

  it.each(sampled(LISTED, 2, 1))('are cut where the records lie that they list, %s', async (_, hidesTotal, order) => {
    const records = new Map<string, CappedRecord>();
    for (let nth = 0; nth < 32; nth += 1) {
      const id = order === 0 ? `r${(nth * 7) % 32}` : `r${50 + order * nth}`;
      records.set(id, { id, title: 'close to the others', updated: NOW - 25 * DAY + nth * 1_700 });
    }
    const stage = await stageOf(USUAL, { cap: 15, hidesTotal }, { most: 15 }, records);
    expect(await stage.run('backfill')).toEqual({ ...OK, mode: 'full' });
    expect(await stage.unlike()).toEqual([]);
    // Seven windows, two requests of each, without any cut.
    expect(stage.asked().length).toBeLessThan(30);
  });

  it('tell of records without a time, and delete none of them', async () => {
    const stage = await stageOf(USUAL, { cap: 30, hidesTotal: true });
    stage.records.set('a', { id: 'a', title: 'untimed', updated: null });
    const { status, messages } = await stage.run('backfill');
    expect([status, messages]).toEqual(['partial', [expect.stringMatching(/1 record has no time of change/)]]);
  });

  it('go on in the window in which they were interrupted', async () => {
    const stage = await stageOf(USUAL, { cap: 30, hidesTotal: true });
    const stop = new AbortController();
    stage.service.delay = 5;
    const begun = stage.run('backfill', stop.signal);
    while (stage.service.requests.length < 25) await new Promise((resolve) => setTimeout(resolve, 2));
    stop.abort(new Error('stopped'));
    await begun;
    const first = stage.asked().length;
    const whole = await stageOf(USUAL, { cap: 30, hidesTotal: true });
    await whole.run('backfill');
    expect(await stage.run('backfill')).toEqual({ ...OK, mode: 'full' });
    expect(await stage.unlike()).toEqual([]);
    expect(stage.asked().length + first).toBeLessThan(whole.asked().length + 8);
  });
});
