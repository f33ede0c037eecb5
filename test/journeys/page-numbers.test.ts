import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import type { Reply } from '../pagination/listing-server.ts';

const SIZE = 5;
const NUMBERED = { style: 'page', page_param: 'page', size: SIZE, total: null };

const firstAgain: Numbering['zero'] = (records) => ({ body: { data: records.slice(0, SIZE) } });

const recordsOf = (count: number): { id: string }[] =>
  Array.from({ length: count }, (_, nth) => ({ id: `r${nth}`, updated_at: '2026-01-01T00:00:00Z' }));

interface Numbering {
  /** The number of the service's first page. */
  from: 0 | 1;
  count: number;
  /** What a service that counts from 1 makes of page 0. */
  zero?: (records: readonly unknown[]) => Reply;
  /** Called before each answer. */
  before?: (page: number, records: { id: string }[]) => void;
}

/** Numbered pages without a total, newest first. */
async function stageOf(database: TestDatabase, { from, count, zero, before }: Numbering, fields = {}) {
  const records = recordsOf(count);
  const profile = { page: NUMBERED, incremental: null, ...fields };
  const stage = await ownService(database, profile, (url) => {
    const page = Number(url.searchParams.get('page'));
    before?.(page, records);
    if (page < from && zero !== undefined) return zero(records);
    const place = (page - from) * SIZE;
    const data = records.slice(Math.max(0, place), Math.max(0, place + SIZE));
    return { body: { data, total: records.length } };
  });
  const copied = (): Promise<string[]> => stage.column<string>('SELECT id FROM report WHERE _deleted_at IS NULL');
  const unlike = async (): Promise<string[]> => {
    const there = new Set(records.map(({ id }) => id));
    return [...there.symmetricDifference(new Set(await copied()))];
  };
  const asked = (): number[] =>
    stage.service.requests.splice(0).map((address) => Number(/page=(\d+)/.exec(address)?.[1]));
  return { ...stage, profile, records, unlike, asked };
}

function endOf({ resources }: RunReport): string {
  const [one] = resources;
  return [one?.status, one?.error?.code].join(' ').trim();
}

describe.for(eitherDatabase(import.meta.filename))('the first page of a numbered listing, on $name', (database) => {
  it.for([3, 20])('is not page 1 of a service that counts from 0: %i records', async (count) => {
    const stage = await stageOf(database, { from: 0, count });
    for (const command of ['backfill', 'sync'] as const) {
      const report = await stage.run(command);
      expect(endOf(report)).toBe('failed pagination_invalid');
      expect(report.resources[0]?.error?.hint).toContain('page.first');
    }
    stage.setReport({ ...stage.profile, page: { ...NUMBERED, first: 0 } });
    expect(endOf(await stage.run('sync'))).toBe('ok');
    expect(await stage.unlike()).toEqual([]);
  });

  const zeros: [what: string, zero: Numbering['zero']][] = [
    ['the first page', firstAgain],
    ['something else', () => ({ body: { message: 'pages begin at 1' } })],
    ['a 404', () => ({ status: 404 })],
  ];
  it.for(zeros)('is page 1 of a service that makes of page 0 %s', async ([, zero]) => {
    const stage = await stageOf(database, { from: 1, count: 12, ...(zero === undefined ? {} : { zero }) });
    expect(endOf(await stage.run('backfill'))).toBe('ok');
    expect(await stage.unlike()).toEqual([]);
    // Once in a run, however it was answered.
    expect(stage.asked().filter((page) => page === 0)).toEqual([0]);
  });

  it('is asked for by whole walks alone, and not where a total shows that there are no others', async () => {
    const filter = { incremental: { param: 'since', lookback: '10m' } };
    const filtered = await stageOf(database, { from: 1, count: 12 }, filter);
    expect(endOf(await filtered.run('backfill'))).toBe('ok');
    expect(filtered.asked()).toContain(0);
    await filtered.run('sync');
    expect(filtered.asked()).not.toContain(0);
    const total = await stageOf(database, { from: 1, count: 12 }, { page: { ...NUMBERED, total: 'total' } });
    expect(endOf(await total.run('backfill'))).toBe('ok');
    expect(total.asked()).not.toContain(0);
  });
});

const MOST = 5;

interface Answering {
  total: (records: readonly unknown[], data: readonly unknown[]) => number | null;
  /** Where the page begins, by its parameters. */
  place: (params: URLSearchParams) => number;
}

const byPage: Answering['place'] = (params) => (Number(params.get('page')) - 1) * MOST;
const byOffset: Answering['place'] = (params) => Number(params.get('offset'));
const byIndex: Answering['place'] = (params) => Number(params.get('offset')) * MOST;
const whole: Answering['total'] = (records) => records.length;
const ofPage: Answering['total'] = (_, { length }) => length;
const ofPages: Answering['total'] = ({ length }) => Math.ceil(length / MOST);
const pages = { style: 'page', page_param: 'page' };
const offsets = { style: 'offset', offset_param: 'offset' };

describe.for(eitherDatabase(import.meta.filename))('numbers of a listing, on $name', (database) => {
  /** A service that gives five records at once, however many are asked for. */
  async function numbersOf(page: Record<string, unknown>, { total, place }: Answering) {
    const records = recordsOf(23);
    const stage = await ownService(database, { page: { size: 10, ...page }, incremental: null }, (url) => {
      const data = records.slice(place(url.searchParams), place(url.searchParams) + MOST);
      return { body: { data, total: total(records, data) } };
    });
    const report = await stage.run('backfill');
    const code = report.resources[0]?.error?.code;
    const isFound = code !== undefined && (await stage.command('check', '--json')).stdout.includes(`"code":"${code}"`);
    return [endOf(report), isFound, report.status === 'ok' ? await stage.value('SELECT count(*) FROM report') : null];
  }

  const told = { ...pages, total: 'total' };
  const toldOffsets = { ...offsets, total: 'total' };
  const wrong = 'failed pagination_invalid';
  it.for<[what: string, page: Record<string, unknown>, answering: Answering, end: string]>([
    ['pages and a total', told, { place: byPage, total: whole }, 'ok'],
    ['offsets and a total', toldOffsets, { place: byOffset, total: whole }, 'ok'],
    ['offsets', offsets, { place: byOffset, total: () => null }, 'ok'],
    ['pages, of which the total counts one', told, { place: byPage, total: ofPage }, wrong],
    ['offsets, and the total counts a page', toldOffsets, { place: byOffset, total: ofPage }, wrong],
    ['pages, and the total counts them', told, { place: byPage, total: ofPages }, wrong],
    ['offsets that are numbers of pages', offsets, { place: byIndex, total: () => null }, 'failed pagination_invalid'],
  ])('are believed if they are right: %s', async ([, page, answering, end]) => {
    const isRight = end === 'ok';
    // Whoever checks first need not find out by a walk.
    expect(await numbersOf(page, answering)).toEqual([end, !isRight, isRight ? 23 : null]);
  });
});
