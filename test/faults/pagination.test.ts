import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import {
  endsOf,
  expectWholeCopy,
  type FaultRow,
  list,
  onStage,
  record,
  reportOf,
  requestsFor,
  rowsIn,
  type StageOptions,
  testFaults,
} from './stage.ts';
import { portOf } from './port-of.ts';
import { sampled } from '../support/length.ts';

/** What `has_more` and the cursor of page 2 may be, and where the walk then ends. */
const HAS_MORE: readonly [value: string, ends: string, rows: number][] = [
  ['true', 'ok', 16],
  ['"true"', 'ok', 16],
  ['1', 'ok', 16],
  ['null', 'ok', 16],
  ['absent', 'ok', 16],
  ['"maybe"', 'failed pagination_invalid', 4],
  ['2', 'failed pagination_invalid', 4],
  ['[]', 'failed pagination_invalid', 4],
];
const CURSORS: readonly [what: string, value: string, code: string][] = [
  ['that is missing on a full page', 'absent', 'pagination_invalid'],
  ['that is an object', '{"after":4}', 'pagination_invalid'],
  ['that is true', 'true', 'pagination_invalid'],
  ['with a line feed (F210)', '"a\\nb"', 'pagination_invalid'],
  ['with a NUL (F210)', '"a\\u0000b"', 'pagination_invalid'],
  ['that is half a character', '"\\ud800"', 'pagination_invalid'],
];
const TOTALS = ['0', '3', '"16"', '"many"', '1e9', '-1', 'null', '{}', 'absent'];

const numbered: StageOptions = {
  sandbox: { pagination: 'page' },
  resource: { page: { style: 'page', size: 4, total: 'total' } },
};
const byOffset: StageOptions = {
  sandbox: { pagination: 'offset' },
  resource: { page: { style: 'offset', size: 4, total: 'total' } },
};
const byLink: StageOptions = { sandbox: { pagination: 'link' }, resource: { page: { style: 'link', size: 4 } } };
const byNextUrl: StageOptions = {
  sandbox: { pagination: 'next-url' },
  resource: { page: { style: 'next-url', size: 4, next_url: 'next' } },
};
const withHasMore: StageOptions = { resource: { page: { size: 4, has_more: 'has_more' } } };
const withCount: StageOptions = { resource: { page: { size: 4, count: 'count' } } };

describe('a listing goes in circles', () => {
  testFaults([
    {
      title: 'F048 the same cursor again',
      faults: [{ fault: 'repeated-cursor', page: 2 }],
      ends: 'failed guard_loop',
      rows: 4,
      shows: [(stage) => requestsFor(stage, 'content'), 2],
    },
    {
      title: 'F049 a cycle of cursors',
      faults: [{ fault: 'cursor-cycle', length: 3 }],
      stage: { records: { content: 40 } },
      ends: 'failed guard_loop',
      rows: 12,
    },
    {
      title: 'F048 pages that all hold what the first one holds',
      faults: [{ fault: 'same-page' }],
      stage: byOffset,
      ends: 'failed guard_loop',
      rows: 4,
    },
    {
      title: 'F050 three empty pages and then the rest',
      faults: [{ fault: 'empty-page', nth: 2, times: 3 }],
      ends: 'ok',
    },
    {
      title: 'F050 empty pages without end, each promising a next one',
      faults: [{ fault: 'empty-page', nth: 2, times: 1_000 }],
      ends: 'failed guard_loop',
      rows: 4,
    },
  ]);
});

describe('a page says something odd about the pages after it', () => {
  testFaults([
    ...HAS_MORE.map(([value, ends, rows]): FaultRow => ({
      title: `F051 has_more that is ${value}`,
      faults: [{ fault: 'field', name: 'has_more', value, page: 2 }],
      stage: withHasMore,
      ends,
      rows,
    })),
    {
      title: 'F051 has_more that is true beside an empty cursor',
      faults: [
        { fault: 'field', name: 'has_more', value: 'true', page: 2 },
        { fault: 'field', name: 'next_cursor', value: '""', page: 2 },
      ],
      stage: withHasMore,
      ends: 'failed pagination_invalid',
      rows: 4,
    },
    ...CURSORS.map(([what, value, code]): FaultRow => ({
      title: `F051 a cursor ${what}`,
      faults: [{ fault: 'field', name: 'next_cursor', value, page: 2 }],
      ends: `failed ${code}`,
      rows: 4,
    })),
    { title: 'F052 a short page in the middle', faults: [{ fault: 'short-page', page: 2 }], ends: 'ok' },
    ...sampled(TOTALS, 2).flatMap((total, at): FaultRow[] =>
      sampled(Object.entries({ cursor: {}, page: numbered, offset: byOffset }), 3, at).map(([style, stage]) => ({
        title: `F053 a total that is ${total} on page 2, ${style}`,
        faults: [
          total === 'absent'
            ? { fault: 'field', name: 'total', value: total, page: 2 }
            : { fault: 'wrong-total', total, page: 2 },
        ],
        stage,
        ends: 'ok',
      })),
    ),
    {
      title: 'F056 pages of ten times the size',
      faults: [{ fault: 'oversize-page', factor: 10 }],
      stage: { records: { content: 100 } },
      rows: 100,
      ends: 'ok',
    },
    {
      title: 'F058 a page that carries less than its own count',
      faults: [{ fault: 'wrong-count', page: 2 }],
      stage: withCount,
      ends: 'failed bad_page',
      rows: 4,
    },
    {
      title: 'F058 a page that came short once is asked for again',
      faults: [{ fault: 'wrong-count', page: 2, nth: 1 }],
      stage: withCount,
      ends: 'ok',
    },
  ]);
});

const LINKS: readonly [what: string, value: string, ends: string, rows: number][] = [
  ['several relations in one link', '<{url}>; rel="last next"', 'ok', 16],
  ['a relation in upper case, no quotes', '<{url}>; REL=NEXT', 'ok', 16],
  ['commas and semicolons in quotes', '<{url}>; title="a, b; rel=\\"prev\\""; rel="next"', 'ok', 16],
  ['two headers', '<http://other.invalid/>; rel="prev"\n<{url}>; rel="next"', 'ok', 16],
  ['the quotes not closed', '<{url}>; rel="next', 'failed pagination_invalid', 4],
  ['no angle brackets', '{url}; rel="next"', 'failed pagination_invalid', 4],
  ['two next pages', '<{url}>; rel="next", </v1/content?cursor=x>; rel="next"', 'failed pagination_invalid', 4],
];

describe('links to the next page', () => {
  testFaults(
    LINKS.map(([what, value, ends, rows]): FaultRow => ({
      title: `F059 a Link header with ${what}`,
      faults: [{ fault: 'link-header', value, page: 2 }],
      stage: byLink,
      ends,
      rows,
    })),
  );

  const FOREIGN = [
    ['another host', 'http://{canary}{path}', 'origin_refused'],
    ['another host without a scheme', '//{canary}{path}', 'origin_refused'],
    ['a user name', 'http://user@{home}{path}', 'origin_refused'],
    ['a name that begins like home', 'http://{home}@{canary}{path}', 'origin_refused'],
    ['https at home', 'https://{home}{path}', 'origin_refused'],
    ['a file', 'file:///etc/passwd', 'origin_refused'],
    ['no URL', 'http://[::1', 'pagination_invalid'],
    ['a script', 'javascript:alert(1)', 'origin_refused'],
    ['backslashes', '\\\\\\\\{canary}{path}', 'origin_refused'],
    ['a relative path at home', '{path}', 'ok'],
  ] as const;

  it.concurrent.each(sampled(FOREIGN, 3))('F055 a next URL that leads to %s', async (_what, link, code) => {
    let bytes = 0;
    const canary = createServer((socket) => socket.on('data', (data) => (bytes += data.length)));
    const port = await portOf(canary);
    await onStage(byNextUrl, async (stage) => {
      const home = new URL(stage.sandbox.url).host;
      const to = link.replaceAll('{canary}', `127.0.0.1:${port}`).replaceAll('{home}', home);
      stage.sandbox.faults.add({ fault: 'foreign-next', resource: 'content', page: 2, to });
      const ended = await stage.backfill();
      expect(endsOf(ended)['content']).toBe(code === 'ok' ? 'ok' : `failed ${code}`);
      expect([bytes, await rowsIn(stage)]).toEqual([0, code === 'ok' ? 16 : 4]);
      stage.sandbox.faults.clear();
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
    canary.close();
  });
});

describe('a record twice on one page', () => {
  const twice: FaultScript = { fault: 'duplicate-ids', count: 2, resource: 'content', page: 2, nth: 1 };

  it.concurrent('F054 becomes one row, the last copy, which is told, and the next walk brings back what the service holds', async () => {
    await onStage({}, async (stage) => {
      stage.sandbox.faults.add(twice);
      const ended = await stage.backfill();
      expect(ended.code).toBe(3);
      expect(reportOf(ended)).toMatchObject({ records: 18, inserted: 16, unchanged: 0, rejected: 0 });
      expect(reportOf(ended).warnings).toMatchObject([{ code: 'keys_shared' }]);
      expect(await stage.query(`SELECT count(*) AS n FROM content WHERE title = 'A second copy'`)).toEqual([{ n: 2 }]);
      stage.sandbox.faults.clear();
      expect((await stage.backfill()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F054 becomes the newer one by the service’s own clock, wherever it stands', async () => {
    await onStage({}, async (stage) => {
      list(stage, [
        record('x', { title: 'old' }, 1),
        record('x', { title: 'new' }, 3),
        record('x', { title: 'older' }),
      ]);
      const ended = await stage.backfill();
      expect(reportOf(ended)).toMatchObject({ status: 'partial', records: 3, inserted: 1, unchanged: 0 });
      expect(reportOf(ended).warnings).toMatchObject([{ code: 'states_listed' }]);
      expect(await stage.query('SELECT id, title FROM content')).toEqual([{ id: 'x', title: 'new' }]);
    });
  });
});
