import type {
  LimitStatus,
  PastRun,
  ResourceStatus,
  SourceStatus,
  StatusSnapshot,
  WebhookStatus,
} from '../../../src/server/status/snapshot.ts';
import type { PageView } from '../../../src/server/page/page-frame.ts';

/** A page without controls. */
export const VIEW: PageView = { nonce: 'n', may: false, told: null };

/** 2026-11-20 14:22:37 UTC. */
export const NOW = Date.parse('2026-11-20T14:22:37.400Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A resource that is as it should be, with other fields laid over. */
export function resourceWith(resource: string, fields: Partial<ResourceStatus> = {}): ResourceStatus {
  return {
    resource,
    rows: { live: 18_204, deleted: 112, counted_at: NOW },
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

export function runWith(fields: Partial<PastRun> = {}): PastRun {
  const counts = { inserted: 0, updated: 0, unchanged: 38, rejected: 0, deleted: 0, held: 0 };
  const traffic = { pages: 1, requests: 1, limited: 0 };
  const started_at = fields.started_at ?? NOW - 10 * MINUTE;
  const run_id = `${started_at}-a1b2c3d4`;
  return {
    run_id,
    mode: 'incremental',
    status: 'ok',
    warnings: [],
    started_at,
    seconds: 1.9,
    ...counts,
    ...traffic,
    error: null,
    ...fields,
  };
}

/** Requests per minute as a wave, with a gap before the process began and a few refusals. */
export function limitWith(fields: Partial<LimitStatus> = {}, knownMinutes = 60): LimitStatus {
  const minutes = Array.from({ length: 60 }, (_, index) => {
    const at = (Math.floor(NOW / MINUTE) - 59 + index) * MINUTE;
    if (index < 60 - knownMinutes) return { at, requests: 0, limited: 0, used: null };
    const used = Math.max(0, 0.55 + 0.34 * Math.sin(index / 7) - (index % 13 === 0 ? 0.4 : 0));
    return {
      at,
      requests: Math.round(used * 600),
      limited: index === 22 || index === 23 || index === 47 ? 2 : 0,
      used,
    };
  });
  const requests = minutes.reduce((sum, minute) => sum + minute.requests, 0);
  const limited = minutes.reduce((sum, minute) => sum + minute.limited, 0);
  const known = {
    allowed_per_second: 10,
    share: 0.9,
    paused_until: null,
    used: requests / (knownMinutes * 600),
  };
  return { ...known, requests, limited, minutes, ...fields };
}

export function webhooksWith(source: string, fields: Partial<WebhookStatus> = {}): WebhookStatus {
  const minutes = Array.from({ length: 60 }, (_, index) => {
    const at = (Math.floor(NOW / MINUTE) - 59 + index) * MINUTE;
    const received = index % 11 === 4 ? 0 : Math.round(14 + 12 * Math.sin(index / 5) + (index % 7) * 3);
    const p50_ms = received === 0 ? null : 90 + 40 * Math.sin(index / 4) + (index > 40 && index < 46 ? 500 : 0);
    return { at, received, refused: index === 33 ? 4 : 0, p95_ms: p50_ms === null ? null : p50_ms * 2.6 + 40 };
  });
  return {
    path: `/webhooks/${source}`,
    problem: null,
    waiting: 3,
    oldest_at: NOW - 800,
    dead: 0,
    full: 0,
    different: 0,
    last_received_at: NOW - 2_400,
    received: minutes.reduce((sum, minute) => sum + minute.received, 0),
    refused: 4,
    refused_by: { signature: 3, too_old: 1 },
    delay_p50_ms: 112,
    delay_p95_ms: 840,
    minutes,
    ...fields,
  };
}

/** A source with three fresh resources, with other fields laid over. */
export function sourceWith(source: string, fields: Partial<SourceStatus> = {}): SourceStatus {
  return {
    source,
    base_url: `https://cms.${source}.example.com`,
    api: { version: '/v1', lifetime: null },
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
    settings: null,
    ...fields,
  };
}

/** Three sources in all the ways in which they can stand. */
export function richSnapshot(): StatusSnapshot {
  return snapshotWith({ sources: [troubledBlog(), firstCopyOfShop(), fineDocs()] });
}

function troubledBlog(): SourceStatus {
  return sourceWith('blog', {
    resources: [contentWithHeldDeletes(), overdueImages(), parkedAnalytics()],
    webhooks: webhooksWith('blog', { dead: 2 }),
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
        changed_at: NOW - 3 * HOUR,
        resource: 'content',
        table: 'content_authors',
        column: 'handle',
        from: 'integer',
        to: 'text',
      },
    ],
  });
}

function contentWithHeldDeletes(): ResourceStatus {
  return resourceWith('content', {
    rows: { live: 1_204_118, deleted: 2_304, counted_at: NOW },
    runs: [
      runWith({ started_at: NOW - 4 * MINUTE, inserted: 2, updated: 11 }),
      runWith({
        started_at: NOW - 11 * HOUR,
        mode: 'full',
        seconds: 2_415,
        status: 'partial',
        pages: 12_042,
        requests: 12_051,
        limited: 9,
        inserted: 14,
        updated: 88,
        unchanged: 1_203_911,
        deleted: 16,
        held: 1_870,
        rejected: 7,
      }),
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
  const failure = {
    code: 'auth_refused',
    message: 'GET https://cms.blog.example.com/v1/images?page=3 answered 401: the key was revoked',
    hint: 'put a valid key into sources.blog.auth.key, or into the variable that it names',
  };
  const failed = [0, 10, 20].map((minutes) =>
    runWith({
      status: 'failed',
      started_at: NOW - (9 + minutes) * MINUTE,
      seconds: 0.8,
      pages: 0,
      unchanged: 0,
      error: failure,
    }),
  );
  const schedule = { ...resourceWith('images').schedule, overdue_at: NOW - 2 * HOUR - 51 * MINUTE };
  return resourceWith('images', { last_success_at: NOW - 3 * HOUR - 12 * MINUTE, schedule, runs: failed });
}

function parkedAnalytics(): ResourceStatus {
  return resourceWith('analytics', {
    parked_until: NOW + 42 * MINUTE,
    runs: [
      runWith({
        status: 'deferred',
        started_at: NOW - 18 * MINUTE,
        pages: 4,
        requests: 5,
        limited: 1,
        error: {
          code: 'deferred',
          message: 'the service allows the next request only at 2026-11-20T15:04:37.000Z',
          hint: null,
        },
      }),
    ],
  });
}

function firstCopyOfShop(): SourceStatus {
  const none = { last_success_at: null, last_full_at: null, runs: [] };
  const running = {
    mode: 'full',
    started_at: NOW - 6 * MINUTE,
    last_page_at: NOW - 300,
    pages: 744,
    records: 74_400,
    total: 120_300,
    records_per_second: 212.4,
    eta_seconds: 216,
  } as const;
  return sourceWith('shop', {
    webhooks: null,
    limit: limitWith({ paused_until: NOW + 14_000 }, 7),
    changes: { by_webhook: 0, by_schedule: 0 },
    resources: [
      resourceWith('content', { ...none, running, rows: { live: 74_400, deleted: 0, counted_at: NOW } }),
      resourceWith('images', {
        ...none,
        running: { ...running, total: null, records: 1_210, eta_seconds: null },
        rows: { live: 1_210, deleted: 0, counted_at: NOW },
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
      minutes: limitWith().minutes.map(({ at, requests, limited }) => ({ at, requests, limited, used: null })),
    }),
  });
}

/** As it is right after the first start: nothing was done yet. */
export function emptySnapshot(): StatusSnapshot {
  const none = { last_success_at: null, last_full_at: null, runs: [], rows: { live: 0, deleted: 0, counted_at: NOW } };
  const quiet = { requests: 0, limited: 0, used: null, allowed_per_second: null };
  return snapshotWith({
    started_at: NOW - 2_000,
    sources: [
      sourceWith('blog', {
        resources: ['content', 'images', 'analytics'].map((resource) => resourceWith(resource, none)),
        webhooks: null,
        warehouse: { ...sourceWith('blog').warehouse, file_bytes: 163_840, wal_bytes: 0 },
        limit: limitWith({
          ...quiet,
          minutes: limitWith().minutes.map(({ at }) => ({ at, requests: 0, limited: 0, used: null })),
        }),
        changes: { by_webhook: 0, by_schedule: 0 },
      }),
    ],
  });
}
