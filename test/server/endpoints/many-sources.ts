import type { SourceDetails } from '../../../src/server/status/source-details.ts';
import type { SourceStatus, StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import { limitWith, NOW, resourceWith, runWith, snapshotWith, sourceWith, webhooksWith } from './sample-status.ts';

const MINUTE = 60_000;
const NAMES = ['blog', 'shop', 'docs', 'press', 'careers', 'help-centre', 'recipes', 'magazine', 'events', 'podcast'];
const PLACES = ['de', 'at', 'ch', 'fr', 'it', 'es', 'pl', 'nl', 'uk', 'us'];

/** So many sources, three resources each: one of them cannot be read, some are late or make their first copy. */
export function manySources(count: number): StatusSnapshot {
  const sources = Array.from({ length: count }, (_, at) => sourceNumber(at, count));
  return snapshotWith({ sources });
}

function sourceNumber(at: number, count: number): SourceStatus {
  const name =
    count <= NAMES.length ? (NAMES[at] ?? `source-${at}`) : `${NAMES[at % 10]}-${PLACES[Math.floor(at / 10) % 10]}`;
  const last_success_at = NOW - (at + 1) * 7_300;
  const rows = { live: 1_000 + at * at * 137, deleted: at, counted_at: NOW };
  const resources = ['content', 'images', 'analytics'].map((resource) =>
    resourceWith(resource, {
      last_success_at,
      rows,
      schedule: { ...resourceWith(resource).schedule, next_at: NOW + (at % 13) * 41_000 },
    }),
  );
  const usual = sourceWith(name, {
    resources,
    limit:
      at % 4 === 3
        ? limitWith({
            requests: 0,
            used: null,
            minutes: limitWith().minutes.map(({ at: minute }) => ({ at: minute, requests: 0, used: null, limited: 0 })),
          })
        : limitWith({}, 60 - (at % 5) * 11),
    webhooks: at % 3 === 2 ? null : webhooksWith(name),
    changes: { by_webhook: (at * 31) % 90, by_schedule: at % 3 },
  });
  return TROUBLES[at]?.(usual) ?? usual;
}

const lost = {
  code: 'warehouse_unreachable',
  message: 'connect ECONNREFUSED 10.0.4.17:5432',
  hint: 'start the database, or correct the warehouse of this source',
};
const revoked = {
  code: 'auth_refused',
  message: 'GET https://cms.shop.example.com/v1/content answered 401: the key was revoked',
  hint: 'put a valid key into sources.shop.auth.key, then reload and retry',
};

const TROUBLES: Readonly<Record<number, (source: SourceStatus) => SourceStatus>> = {
  2: (source) => ({ ...source, warehouse: { ...source.warehouse, problem: lost, read_at: NOW - 9 * MINUTE } }),
  13: failing,
  27: (source) => ({
    ...source,
    resources: source.resources.map((one) => ({
      ...one,
      last_success_at: null,
      runs: [],
      running: {
        mode: 'full',
        started_at: NOW - 6 * MINUTE,
        last_page_at: NOW - 300,
        pages: 744,
        records: 74_400,
        total: 120_300,
        records_per_second: 212.4,
        eta_seconds: 216,
      },
    })),
  }),
};

function failing(source: SourceStatus): SourceStatus {
  const failed = runWith({ status: 'failed', seconds: 0.184, pages: 0, unchanged: 0, error: revoked });
  const resources = source.resources.map((one, at) => (at === 0 ? { ...one, runs: [failed, ...one.runs] } : one));
  return { ...source, resources };
}

/** What the page of a source asks for, with something of everything. */
export function detailsOf(resources: readonly string[], bodies: boolean): SourceDetails {
  const runs = resources.flatMap((resource, of) =>
    Array.from({ length: 9 }, (_, at) => ({
      ...runWith({
        started_at: NOW - (4 + at * 60 + of) * MINUTE,
        seconds: at === 0 ? 0.184 : 2.4 * at,
        inserted: (at * 7) % 5,
        updated: at,
        deleted: at % 4 === 2 ? 3 : 0,
      }),
      resource,
    })),
  );
  return {
    problem: null,
    pictures: [],
    runs: runs.toSorted((a, b) => b.started_at - a.started_at),
    run: resources.map(runPart),
    rejects: rejectsOf(bodies),
    deliveries: deliveriesOf(bodies),
    schema_changes: [
      {
        changed_at: NOW - 26 * MINUTE,
        resource: 'content',
        table: 'content',
        column: 'reading_time_minutes',
        from: null,
        to: 'integer',
      },
      {
        changed_at: NOW - 190 * MINUTE,
        resource: 'content',
        table: 'content_authors',
        column: 'handle',
        from: 'integer',
        to: 'text',
      },
    ],
  };
}

function rejectsOf(bodies: boolean): SourceDetails['rejects'] {
  const text = JSON.stringify(
    { slug: 'a-record-without-an-id', title: 'No id <b>at all</b>', tags: ['one', 'two'] },
    null,
    1,
  );
  return [
    {
      resource: 'content',
      reason: 'id_missing',
      record_id: null,
      detail: 'the record has no field id',
      last_seen_at: NOW - 12 * MINUTE,
      body: bodies ? text : null,
      length: text.length,
    },
    {
      resource: 'content',
      reason: 'too_deep',
      record_id: 'post-4411',
      detail: 'nested deeper than 200 levels at seo.blocks',
      last_seen_at: NOW - 50 * MINUTE,
      body: bodies ? '[[[[' : null,
      length: 9_000,
    },
  ];
}

function deliveriesOf(bodies: boolean): NonNullable<SourceDetails['deliveries']> {
  const usual = { attempts: 1, due_at: null, kind: 'content.updated', repeats: 0 };
  const given = [
    { received_at: NOW - 3_000, state: 'done', reason: null, resource: 'content', record_id: 'post-17' },
    {
      received_at: NOW - 65 * MINUTE,
      state: 'dead',
      reason: 'the service answered 500 eight times',
      attempts: 8,
      resource: 'content',
      record_id: 'post-18',
      repeats: 2,
    },
    {
      received_at: NOW - 66 * MINUTE,
      state: 'ignored',
      reason: 'no resource of ours',
      kind: 'user.created',
      resource: null,
      record_id: null,
    },
  ] as const;
  return given.map((fields, at) => {
    const body = `{"type":"content.updated","data":{"id":"post-${at}"}}`;
    const seq = 9 - at;
    const own = { seq, id: `msg_${seq}`, body: bodies ? body : null, length: body.length };
    return Object.assign(own, usual, fields);
  });
}

function runPart(resource: string): SourceDetails['run'][number] {
  return {
    resource,
    command: 'sync',
    mode: 'incremental',
    status: 'failed',
    facts: [
      { title: 'began', lines: ['2026-11-20T14:22:37.000Z UTC, took 1.9 s'] },
      { title: 'records', lines: ['51 on 1 page: 2 new, 11 changed, 38 unchanged, 0 deleted'] },
      {
        title: 'error',
        lines: [
          'GET https://cms.example.com/v1/content answered 401 [auth_refused]',
          '→ put a valid key into auth.key',
        ],
      },
      { title: 'warning', lines: ['The filter does not list everything [filter_not_believed]', '→ ask the service'] },
    ],
  };
}
