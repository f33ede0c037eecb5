import { describe, expect, it } from 'vitest';
import type { Reply } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

/** A record of the service. */
interface Doc {
  id: string;
  title: string;
  rev: number;
}

/** One change in the service's log, the oldest first. */
interface LogEntry {
  seq: number;
  id: string;
  /** Null if it was deleted. */
  doc: Doc | null;
}

/** Records and the log of their changes, as services with a feed of changes keep them. */
class DocLog {
  readonly docs = new Map<string, Doc>();
  entries: LogEntry[] = [];
  seq = 0;

  constructor(count: number) {
    for (let at = 0; at < count; at += 1) this.put(`d${String(at).padStart(3, '0')}`);
  }

  put(id: string, title = `Title of ${id}`): void {
    const doc = { id, title, rev: (this.docs.get(id)?.rev ?? 0) + 1 };
    this.docs.set(id, doc);
    this.#log(id, doc);
  }

  remove(id: string): void {
    if (this.docs.delete(id)) this.#log(id, null);
  }

  /** The log behind a place, only with the last word of each record if `latest`. */
  since(seq: number, latest: boolean): LogEntry[] {
    const behind = this.entries.filter((entry) => entry.seq > seq);
    return latest ? behind.filter(({ id, seq: at }) => !this.entries.some((e) => e.id === id && e.seq > at)) : behind;
  }

  /** As the copy must have them. */
  rows(): Doc[] {
    return [...this.docs.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  #log(id: string, doc: Doc | null): void {
    this.entries.push({ seq: (this.seq += 1), id, doc });
  }
}

const EITHER = eitherDatabase(import.meta.filename);

const PAGES = { style: 'page', size: 25, total: 'total' };

/** How a service lets its log be read. */
interface Dialect {
  /** Fields of the profile. */
  fields: Record<string, unknown>;
  /** Null for a request of the listing or of a record. */
  answer: (url: URL, log: DocLog, state: State) => Reply | null;
}

interface State {
  /** Cursors up to this one are forgotten. */
  forgotten: number;
  /** Called before each answer. */
  before: (url: URL) => void;
  /** What each answer of the feed says besides; null for nothing. */
  besides: object | null;
}

const BY_SEQUENCE = {
  mode: 'feed',
  path: '/_changes',
  query: { since: '{cursor}', include_docs: 'true', limit: '7' },
  records: 'results',
  record: 'doc',
  id: 'id',
  deleted: { field: 'deleted' },
  next: 'last_seq',
  more: 'pending',
  start: { query: { since: 'now', limit: '0' }, cursor: 'last_seq' },
  expired: { status: [400], body: { path: 'reason', contains: 'unknown seq' } },
};

/** By sequence, whole documents, the last word of each, deletes as entries. */
const SEQUENCE: Dialect = {
  fields: { incremental: BY_SEQUENCE },
  answer: ({ pathname, searchParams }, log, { forgotten }) => {
    if (pathname !== '/v1/_changes') return null;
    const since = searchParams.get('since') ?? '0';
    const from = since === 'now' ? log.seq : Number(since.split('-')[0]);
    if (from < forgotten) return { status: 400, body: { error: 'bad_request', reason: 'Unknown seq' } };
    const behind = log.since(from, true);
    const limit = Number(searchParams.get('limit'));
    const results = behind.slice(0, limit).map(({ seq, id, doc }) => {
      return doc === null ? { seq: `${seq}-x`, id, deleted: true } : { seq: `${seq}-x`, id, doc };
    });
    const last = behind.length > limit ? (behind[limit - 1]?.seq ?? from) : log.seq;
    return { body: { results, last_seq: `${last}-x`, pending: Math.max(0, behind.length - limit) } };
  },
};

/** By opaque tokens in addresses, the first of them at the end of the whole listing. */
const TOKENS: Dialect = {
  fields: {
    path: '/sync',
    query: { initial: 'true', locale: 'en' },
    records: 'items',
    page: { style: 'next-url', next_url: 'nextPageUrl', size_param: null, absent_is_end: true },
    incremental: {
      mode: 'feed',
      url: true,
      next: 'nextSyncUrl',
      next_page: 'nextPageUrl',
      deleted: { field: 'type', in: ['Deleted'] },
      start: { walk: 'nextSyncUrl' },
      expired: { status: [410] },
    },
  },
  answer: ({ pathname, searchParams, origin }, log, { forgotten }) => {
    if (pathname !== '/v1/sync') return null;
    const link = (token: string): string => `${origin}/v1/sync?token=${encodeURIComponent(token)}`;
    const token = searchParams.get('token') ?? `all ${log.seq} 0 0`;
    const [kind, upTo = '', from = '', at = ''] = token.split(' ');
    if (!searchParams.has('token') && searchParams.get('locale') !== 'en') return { status: 422, body: {} };
    if (kind === 'delta' && Number(from) < forgotten) return { status: 410, body: {} };
    const all = kind === 'all' ? log.rows() : log.since(Number(from), false).filter(({ seq }) => seq <= Number(upTo));
    const items = all.slice(Number(at), Number(at) + 10).map((one) => {
      if ('rev' in one) return one;
      return one.doc ?? { id: one.id, type: 'Deleted', deletedAt: '2026-11-20T10:00:00Z' };
    });
    const next = Number(at) + 10;
    const goesOn = next < all.length;
    if (goesOn) return { body: { items, nextPageUrl: link(`${kind} ${upTo} ${from} ${next}`) } };
    return { body: { items, nextSyncUrl: link(`delta * ${upTo} 0`) } };
  },
};
// What a delta is up to is fixed when its first page is asked for.
const answerTokens = TOKENS.answer;
TOKENS.answer = (url, log, state) => {
  const token = url.searchParams.get('token');
  if (token?.startsWith('delta *') === true) url.searchParams.set('token', token.replace('*', String(log.seq)));
  return answerTokens(url, log, state);
};

/** Events by number that only name records, each of which is read alone. */
const EVENTS: Dialect = {
  fields: {
    incremental: {
      mode: 'feed',
      path: '/events',
      query: { since_id: '{cursor}', limit: '7' },
      records: 'events',
      record: null,
      id: 'subject_id',
      filter: [{ field: 'subject_type', in: ['Article'] }],
      last: 'id',
      start: { path: '/events', query: { order: 'desc', limit: '1' }, cursor: 'newest' },
      expired: { status: [410] },
    },
  },
  answer: ({ pathname, searchParams }, log, { forgotten }) => {
    if (pathname !== '/v1/events') return null;
    if (searchParams.get('order') === 'desc') return { body: { events: [], newest: log.seq } };
    const from = Number(searchParams.get('since_id') ?? 0);
    if (from < forgotten) return { status: 410, body: {} };
    const events = log.since(from, false).map(({ seq, id }) => ({ id: seq, subject_id: id, subject_type: 'Article' }));
    return { body: { events: events.slice(0, 7) } };
  },
};

async function fed(database: TestDatabase, dialect: Dialect, count = 60) {
  const log = new DocLog(count);
  const state: State = { forgotten: 0, before: () => undefined, besides: null };
  const fields = { updated: null, page: PAGES, item: '/report/{id}', ...dialect.fields };
  const stage = await ownService(database, fields, (url) => {
    state.before(url);
    const told = dialect.answer(url, log, state);
    if (told !== null)
      return state.besides === null ? told : { ...told, body: Object.assign({}, told.body, state.besides) };
    const id = url.pathname.split('/').at(3);
    if (id !== undefined) {
      const doc = log.docs.get(id);
      return doc === undefined ? { status: 404 } : { body: doc };
    }
    const from = (Number(url.searchParams.get('page')) - 1) * 25;
    return { body: { data: log.rows().slice(from, from + 25), total: log.docs.size } };
  });
  const run = stage.told;
  const rows = (): Promise<unknown[]> =>
    stage.all('SELECT id, title, rev FROM report WHERE _deleted_at IS NULL ORDER BY id');
  return { log, state, stage, run, rows };
}

const DIALECTS = [
  ['a sequence with whole documents', SEQUENCE],
  ['tokens in addresses', TOKENS],
  ['events that name records', EVENTS],
] as const;

describe.for(
  DIALECTS.flatMap(([name, dialect]) => eitherDatabase(name).map((database) => ({ name, dialect, database }))),
)('a feed of changes by $name on $database.name', ({ dialect, database }) => {
  it('brings what is new, changed and deleted, and nothing else is asked for', async () => {
    const { log, stage, run, rows } = await fed(database, dialect);
    expect(await run()).toEqual(['full', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    for (let at = 0; at < 20; at += 1) log.put(`d${String(at).padStart(3, '0')}`, `changed ${at}`);
    log.put('new');
    for (const id of ['d030', 'd000', 'd001']) log.remove(id);
    log.put('d001', 'made anew');
    log.put('never');
    log.remove('never');
    stage.service.requests.length = 0;
    expect(await run()).toEqual(['incremental', 'ok', 2, []]);
    expect(await rows()).toEqual(log.rows());
    // The first page alone is compared with records that are read alone.
    expect(stage.service.requests.filter((path) => path.includes('page=2') || path.includes('initial'))).toEqual([]);
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    expect(await run('backfill')).toEqual(['full', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
    log.put('d002', 'after the safety net');
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
  });

  it('has what changed while everything was walked', async () => {
    const { log, state, run, rows } = await fed(database, dialect);
    let asked = 0;
    state.before = () => {
      asked += 1;
      if (asked === 3) log.put('d001', 'changed on a page that was read');
    };
    await run();
    state.before = () => undefined;
    expect((await run())[1]).toBe('ok');
    expect(await rows()).toEqual(log.rows());
  });

  it('is begun anew behind a whole walk if its cursor is no longer known', async () => {
    const { log, state, run, rows } = await fed(database, dialect);
    await run();
    log.put('d005', 'lost');
    log.remove('d006');
    state.forgotten = log.seq;
    expect(await run()).toEqual(['full', 'ok', 1, ['feed_refused']]);
    expect(await rows()).toEqual(log.rows());
    log.put('d007', 'found');
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
  });

  it('does not go on behind an answer that carries an error beside its entries', async () => {
    const { log, state, run, rows } = await fed(database, dialect);
    await run();
    const before = await rows();
    log.put('d005', 'told by an answer that is not whole');
    state.besides = { errors: [{ message: 'a part of the log is away' }] };
    expect((await run())[1]).toBe('failed');
    expect(await rows()).toEqual(before);
    state.besides = null;
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
  });
});

describe.for(EITHER)('a feed of changes on $name', (database) => {
  it('is held where it names too many deletes', async () => {
    const { log, stage, run, rows } = await fed(database, SEQUENCE);
    await run();
    for (let at = 0; at < 20; at += 1) log.remove(`d${String(at).padStart(3, '0')}`);
    expect(await run()).toEqual(['incremental', 'partial', 0, ['deletes_held']]);
    expect(await rows()).toHaveLength(60);
    // One lives again, and needs no decision.
    log.put('d003', 'again');
    expect(await run()).toEqual(['incremental', 'partial', 0, ['deletes_held']]);
    expect((await stage.command('deletes', 'confirm', 'report')).code).toBe(0);
    expect(await rows()).toEqual(log.rows());
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
  });

  it('fails clearly where the service refuses the cursor that it has just given', async () => {
    const { log, state, stage, run } = await fed(database, SEQUENCE);
    await run();
    log.put('d001', 'x');
    state.forgotten = Infinity;
    const [report] = (await stage.run('sync')).resources;
    // Even the present end is refused.
    expect([report?.status, report?.error?.code]).toEqual(['failed', 'bad_request']);
    const listed = stage.service.requests.filter((path) => path.startsWith('/v1/report?')).length;
    await stage.run('sync');
    expect(stage.service.requests.filter((path) => path.startsWith('/v1/report?'))).toHaveLength(listed);
  });

  it('may bring only what has changed of a record that can be read alone', async () => {
    const answer: Dialect['answer'] = (url, log, state) => {
      const told = SEQUENCE.answer(url, log, state);
      const text = JSON.stringify(told?.body ?? null).replaceAll(/,"rev":\d+/g, '');
      return told === null ? null : { ...told, body: text };
    };
    const { log, run, rows } = await fed(database, { ...SEQUENCE, answer });
    await run();
    log.put('d003', 'changed');
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    expect(await rows()).toEqual(log.rows());
  });
});
