import type { RunDetails } from '../../../src/database/state/run-history.ts';
import type { SourceStatus, StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import type { SourceDetails } from '../../../src/server/status/source-details.ts';
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
  const runs = resources.flatMap((resource) =>
    Array.from({ length: 9 }, (_, at) => ({
      ...runWith({ started_at: NOW - (4 + at * 60) * MINUTE, seconds: 2.4 * at, inserted: at % 5, deleted: at % 4 }),
      resource,
    })),
  );
  const body = JSON.stringify({ slug: 'a-record-without-an-id', title: 'No id <b>at all</b>' }, null, 1);
  const error = 'GET https://cms.example.com/v1/content answered 401';
  return {
    problem: null,
    runs: runs.toSorted((a, b) => b.started_at - a.started_at),
    run: resources.map((resource): RunDetails => ({
      ...runWith({ status: 'failed' }),
      resource,
      command: 'sync',
      finished_at: NOW,
      runs: 1,
      first_started_at: NOW - 10 * MINUTE,
      records: 51,
      retries: 0,
      bytes: 9_000,
      all_requests: 1,
      all_bytes: 9_000,
      outcomes: { stop: 1 },
      error: { code: 'auth_refused', message: error, hint: 'put a valid key into auth.key', request_id: null },
      schema_changes: [],
      rejects: [],
    })),
    rejects: [
      {
        resource: 'content',
        reason: 'id_missing',
        record_id: null,
        detail: 'the record has no field id',
        last_seen_at: NOW - 12 * MINUTE,
        body: bodies ? body : null,
        length: body.length,
      },
    ],
    deliveries: (['done', 'dead', 'ignored'] as const).map((state, at) => ({
      seq: at,
      received_at: NOW - at * MINUTE,
      state,
      reason: state === 'done' ? null : 'the service answered 500 eight times',
      attempts: at,
      due_at: null,
      kind: 'content.updated',
      resource: 'content',
      record_id: 'post-17',
      repeats: at,
      body: bodies ? body : null,
      length: body.length,
    })),
    schema_changes: [
      { changed_at: NOW, resource: 'content', table: 'content', column: 'minutes', from: null, to: 'integer' },
    ],
  };
}
