import { describe, expect, it } from 'vitest';
import type { Reply, Responder } from '../pagination/listing-server.ts';
import { SQLITE } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { ownService, type OwnService } from '../support/own-service.ts';

const RECORDS = Array.from({ length: 250 }, (_, at) => ({ id: at + 1, updated_at: '2026-01-01T00:00:00Z' }));
const NO_FILTER = { incremental: null };

/** The part of the records that a request asks for, at most `cap` of them. */
function part(url: URL, cap: number, start: number, all: readonly object[] = RECORDS) {
  const size = Math.min(Number(url.searchParams.get('limit') ?? 100), cap);
  const data = all.slice(start, start + size);
  return { data, next: start + size < all.length ? start + size : null };
}

const one: Responder = () => ({ body: { data: [{ id: 1 }] } });

let views = 0;

/** Records that change with every look at them. */
function counted(): object[] {
  return Array.from({ length: 10 }, (_, at) => ({ id: at + 1, views: (views += 1) }));
}

/** Pages behind a cursor; `body` makes them. */
function byCursor(
  cap: number,
  body: (data: object[], next: number | null, url: URL) => Reply,
  all: readonly object[] = RECORDS,
): Responder {
  return (url) => {
    const { data, next } = part(url, cap, Number(url.searchParams.get('cursor') ?? 0), all);
    return body(data, next, url);
  };
}

async function ended(stage: OwnService) {
  const { status, resources } = await stage.run('backfill');
  const rows = await stage.value('SELECT count(*) FROM report').catch(() => 0);
  const { error, warnings = [] } = resources[0] ?? {};
  return { status, rows, error: error?.code, hint: error?.hint, warnings };
}

const service = (fields: object, respond: Responder) => ownService(SQLITE, { ...NO_FILTER, ...fields }, respond);

describe('a listing whose end nothing shows', () => {
  it.each<[string, object, Responder]>([
    [
      'says where the cursor is not, that more follows',
      { page: { style: 'cursor' } },
      byCursor(25, (data, next) => ({ body: { data, has_more: next !== null, cursors: { after: next } } })),
    ],
    [
      'tells its total elsewhere',
      { page: { style: 'cursor' } },
      byCursor(25, (data, next) => ({ body: { data, meta: { pagination: { total: 250, page: 1, after: next } } } })),
    ],
    [
      'links its next page in the body',
      { page: { style: 'cursor' } },
      byCursor(25, (data, next) => ({
        body: { data, links: { next: next === null ? null : `/report?cursor=${next}` } },
      })),
    ],
    ['has no Link header', { page: { style: 'link', size: 50 } }, byCursor(50, (data) => ({ body: { data } }))],
    [
      'leaves the cursor out, which the profile takes for the end',
      { page: { style: 'cursor', absent_is_end: true } },
      byCursor(100, (data, next) => ({ body: { data, after: next } })),
    ],
    [
      'tells more records than it lists',
      { page: { style: 'cursor', total: 'total' } },
      byCursor(100, (data) => ({ body: { data, next_cursor: null, total: 250 } })),
    ],
    [
      'tells more in a header',
      { page: { style: 'link', total: 'header:X-Total' } },
      byCursor(100, (data) => ({ body: { data }, headers: { 'x-total': '250' } })),
    ],
  ])('is never ok, neither copied nor checked: it %s', async (_, fields, respond) => {
    const stage = await service(fields, respond);
    const { status, rows } = await ended(stage);
    expect(rows).toBeLessThan(250);
    expect(['failed', 'partial']).toContain(status);
    const { code } = await stage.command('backfill');
    expect(code).not.toBe(0);
    const checked = await stage.command('check');
    expect(`${checked.code} ${checked.stdout}`).toMatch(
      /^1 [^]*FAIL {2}report listing: [^]*→ .*(Set page|name it|set page)/,
    );
  });

  it.each(['page', 'offset', 'link', 'next-url'] as const)(
    'is never ok by the default profile, of a service by %s',
    async (style) => {
      const stage = await journey({
        sandbox: { pagination: style, maxLimit: 50, generate: { content: 250, images: 0, analytics: 0 } },
      });
      const { status, resources } = await stage.run('backfill', { resources: ['content'] });
      expect([status, resources[0]?.error?.code]).toEqual(['failed', 'pagination_invalid']);
    },
  );

  it('is partial where a field that the profile does not name speaks against the end', async () => {
    const stage = await service(
      {},
      byCursor(100, (data, next) => ({ body: { data, next_cursor: null, paging: { next: `/report?after=${next}` } } })),
    );
    const { status, rows, warnings } = await ended(stage);
    expect([status, rows]).toEqual(['partial', 100]);
    expect(warnings).toMatchObject([{ code: 'end_unproved', message: expect.stringContaining('paging.next') }]);
  });

  it('is partial every time, and ok with a warning where the profile accepts it', async () => {
    const stage = await service({ page: { style: 'link' } }, one);
    for (const command of ['backfill', 'sync', 'sync'] as const)
      expect((await stage.run(command)).status).toBe('partial');
    expect((await stage.command('sync')).code).toBe(3);
    const accepted = await service({ page: { style: 'link' }, accept: ['end'] }, one);
    const { status, warnings } = await ended(accepted);
    expect(status).toBe('ok');
    expect(warnings).toMatchObject([{ code: 'end_unproved', accepted: true }]);
    const fresh = await accepted.value('SELECT last_run_warnings FROM sync_freshness');
    expect(String(fresh)).toContain('"accepted":true');
  });

  it('is never ok below a told total, whatever the profile accepts', async () => {
    const stage = await service(
      { page: { style: 'cursor', total: 'total' }, accept: ['end', 'filter', 'item'] },
      () => ({ body: { data: RECORDS.slice(0, 3), next_cursor: null, total: 4 } }),
    );
    expect(await ended(stage)).toMatchObject({ status: 'partial', rows: 3, warnings: [{ code: 'total_not_reached' }] });
  });

  it('is ok where a smaller page names a next one, and that is remembered', async () => {
    const few = RECORDS.slice(0, 30);
    const stage = await service(
      { page: { style: 'link' } },
      byCursor(
        100,
        (data, next, url) => ({
          body: { data },
          headers: next === null ? {} : { link: `<${url.pathname}${url.search}&cursor=${next}>; rel="next"` },
        }),
        few,
      ),
    );
    expect(await ended(stage)).toMatchObject({ status: 'ok', rows: 30, warnings: [] });
    expect(stage.service.requests).toHaveLength(2);
    few.splice(20);
    const { resources } = await stage.run('backfill');
    expect(resources[0]?.warnings).toMatchObject([{ code: 'deletes_unconfirmed' }]);
    expect(stage.service.requests).toHaveLength(3);
  });
});

describe('what a walk tells', () => {
  it('a listing that goes round with ever other records: a loop', async () => {
    const stage = await service({}, () => ({
      body: {
        data: counted(),
        next_cursor: `c${views}`,
      },
    }));
    expect(await ended(stage)).toMatchObject({ status: 'failed', error: 'guard_loop', rows: 10 });
    expect(stage.service.requests.length).toBeLessThan(30);
  });

  it('a listing that goes round behind its told total: the end', async () => {
    const stage = await service({ page: { style: 'cursor', total: 'total' } }, () => ({
      body: {
        data: counted(),
        next_cursor: `c${views}`,
        total: 10,
      },
    }));
    expect(await ended(stage)).toMatchObject({ status: 'ok', rows: 10 });
  });
});
