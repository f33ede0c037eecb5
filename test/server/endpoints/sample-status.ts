import type { Problem } from '../../../src/server/source-activity.ts';
import type { LimitStatus, PastRun, ResourceStatus, SourceStatus, StatusSnapshot, WebhookStatus } from '../../../src/server/status/snapshot.ts';

export const NONCE = 'n';

/** 2026-11-20 14:22:37 UTC. */
export const NOW = Date.parse('2026-11-20T14:22:37.400Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A scan in progress. */
export const RUNNING = {
  mode: 'full',
  started_at: NOW - 6 * MINUTE,
  last_page_at: NOW - 300,
  pages: 744,
  records: 74_400,
  total: 120_300,
  records_per_second: 212.4,
  eta_seconds: 216,
} as const;

/** A resource that is as it should be, with other fields laid over. */
export function resourceWith(resource: string, fields: Partial<ResourceStatus> = {}): ResourceStatus {
  return {
    resource,
    rows: { live: 18_204, deleted: 112 },
    last_success_at: NOW - 4 * MINUTE - 12_000,
    last_full_at: NOW - 11 * HOUR,
    schedule: {
      incremental: '*/10 * * * *',
      full: '17 3 * * *',
      timezone: 'UTC',
      next_at: NOW + 5 * MINUTE + 48_000,
      overdue_at: NOW + 16 * MINUTE,
    },
    running: null,
    unfinished: null,
    parked_until: null,
    paused: null,
    owner: null,
    runs: [runWith({ started_at: NOW - 4 * MINUTE - 14_000, inserted: 2, updated: 11 })],
    rejects: [],
    suspects: { held: 0, held_since: null, held_why: null },
    ...fields,
  };
}

type RunChanges = Omit<Partial<PastRun>, 'error'> & { error?: Problem | null };

export function runWith({ error = null, ...fields }: RunChanges = {}): PastRun {
  const counts = { inserted: 0, updated: 0, unchanged: 38, rejected: 0, deleted: 0, held: 0 };
  const traffic = { pages: 1, requests: 1, limited: 0, records: 38, retries: 0, bytes: 9_000 };
  const started_at = fields.started_at ?? NOW - 10 * MINUTE;
  const run_id = `${started_at}-a1b2c3d4`;
  return {
    run_id,
    resource: 'content',
    command: 'sync',
    mode: 'incremental',
    status: 'ok',
    warnings: [],
    started_at,
    finished_at: started_at + 1_900,
    seconds: 1.9,
    outcomes: { ok: 1 },
    ...counts,
    ...traffic,
    error: error && { request_id: null, ...error },
    ...fields,
  };
}

/** An hour of requests, with a few refusals. */
export function limitWith(fields: Partial<LimitStatus> = {}): LimitStatus {
  const totals = { requests: 20_400, limited: 6, used: 0.57 };
  return { allowed_per_second: 10, paused_until: null, ...totals, ...fields };
}

/** An hour of webhooks, four of which were refused. */
export function webhooksWith(source: string, fields: Partial<WebhookStatus> = {}): WebhookStatus {
  return {
    path: `/webhooks/${source}`,
    problem: null,
    waiting: 3,
    oldest_at: NOW - 800,
    dead: 0,
    full: 0,
    different: 0,
    last_received_at: NOW - 2_400,
    received: 1_100,
    refused: 4,
    refused_by: { signature: 3, too_old: 1 },
    delay_p50_ms: 112,
    delay_p95_ms: 840,
    ...fields,
  };
}

/** A source with three fresh resources, with other fields laid over. */
export function sourceWith(source: string, fields: Partial<SourceStatus> = {}): SourceStatus {
  return {
    source,
    base_url: `https://cms.${source}.example.com`,
    warehouse: {
      address: `/data/${source}.db`,
      problem: null,
      read_at: NOW,
      file_bytes: 1_284_505_600,
      wal_bytes: 4_194_304,
    },
    resources: ['content', 'images', 'analytics'].map((resource) => resourceWith(resource)),
    limit: limitWith(),
    webhooks: webhooksWith(source),
    changes: { by_webhook: 412, by_schedule: 3 },
    schema_changes: [],
    ...fields,
  };
}

export function snapshotWith(fields: Partial<StatusSnapshot> = {}): StatusSnapshot {
  return {
    at: NOW,
    version: '0.1.0',
    started_at: NOW - 53 * HOUR,
    stopping: false,
    sources: [sourceWith('blog')],
    refused: [],
    ...fields,
  };
}

/** Three sources in all the ways in which they can stand. */
export function richSnapshot(): StatusSnapshot {
  return snapshotWith({ sources: [troubledBlog(), firstCopyOfShop(), fineDocs()] });
}

function troubledBlog(): SourceStatus {
  const change = { changed_at: NOW - 26 * MINUTE, resource: 'content', table: 'content', from: null } as const;
  return sourceWith('blog', {
    resources: [contentWithHeldDeletes(), overdueImages(), parkedAnalytics()],
    webhooks: webhooksWith('blog', { dead: 2 }),
    schema_changes: [{ ...change, column: 'reading_time_minutes', to: 'integer' }],
  });
}

function contentWithHeldDeletes(): ResourceStatus {
  const full = {
    pages: 12_042,
    requests: 12_051,
    limited: 9,
    unchanged: 1_203_911,
    deleted: 16,
    held: 1_870,
    rejected: 7,
  };
  return resourceWith('content', {
    rows: { live: 1_204_118, deleted: 2_304 },
    runs: [
      runWith({ started_at: NOW - 4 * MINUTE, inserted: 2, updated: 11 }),
      runWith({ started_at: NOW - 11 * HOUR, mode: 'full', seconds: 2_415, status: 'partial', ...full }),
    ],
    rejects: [
      { reason: 'id_missing', count: 5 },
      { reason: 'too_deep', count: 2 },
    ],
    suspects: {
      held: 1_870,
      held_since: NOW - 10 * HOUR,
      held_why: '1,870 of 1,204,118 rows would go; at most 500 may',
    },
  });
}

function overdueImages(): ResourceStatus {
  const error = {
    code: 'auth_refused',
    message: 'GET https://cms.blog.example.com/v1/images?page=3 answered 401: the key was revoked',
    hint: 'put a valid key into sources.blog.auth.key, or into the variable that it names',
  };
  const runs = [9, 19].map((minutes) => runWith({ status: 'failed', started_at: NOW - minutes * MINUTE, error }));
  const schedule = { ...resourceWith('images').schedule, overdue_at: NOW - 2 * HOUR - 51 * MINUTE };
  return resourceWith('images', { last_success_at: NOW - 3 * HOUR - 12 * MINUTE, schedule, runs });
}

function parkedAnalytics(): ResourceStatus {
  const message = 'the service allows the next request only at 2026-11-20T15:04:37.000Z';
  const error = { code: 'deferred', message, hint: null };
  return resourceWith('analytics', {
    parked_until: NOW + 42 * MINUTE,
    runs: [runWith({ status: 'deferred', started_at: NOW - 18 * MINUTE, limited: 1, error })],
  });
}

function firstCopyOfShop(): SourceStatus {
  const none = { last_success_at: null, last_full_at: null, runs: [] };
  return sourceWith('shop', {
    webhooks: null,
    limit: limitWith({ paused_until: NOW + 14_000 }),
    changes: { by_webhook: 0, by_schedule: 0 },
    resources: [
      resourceWith('content', { ...none, running: RUNNING, rows: { live: 74_400, deleted: 0 } }),
      resourceWith('images', {
        ...none,
        running: { ...RUNNING, total: null, records: 1_210, eta_seconds: null },
        rows: { live: 1_210, deleted: 0 },
      }),
      resourceWith('analytics', { ...none, rows: null }),
    ],
  });
}

function fineDocs(): SourceStatus {
  return sourceWith('docs', {
    limit: limitWith({
      allowed_per_second: null,
      used: null,
    }),
  });
}

/** As it is right after the first start: nothing was done yet. */
export function emptySnapshot(): StatusSnapshot {
  const none = { last_success_at: null, last_full_at: null, runs: [], rows: { live: 0, deleted: 0 } };
  const limit = limitWith({ requests: 0, limited: 0, used: null, allowed_per_second: null });
  const resources = ['content', 'images', 'analytics'].map((resource) => resourceWith(resource, none));
  const changes = { by_webhook: 0, by_schedule: 0 };
  return snapshotWith({
    started_at: NOW - 2_000,
    sources: [sourceWith('blog', { resources, webhooks: null, limit, changes })],
  });
}
