import { describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../../src/cli/command/context.ts';
import { LONGEST_WAIT_MS } from '../../src/http/rate-limit/answer-limits.ts';
import { timestampMs } from '../../src/model/timestamp-text.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { type Reply, startListing } from '../pagination/listing-server.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES, type TestDatabase, USUAL } from '../support/databases.ts';
import { pushedClock } from '../support/hurried-clock.ts';
import type { Journey } from '../support/journey.ts';
import { ownService, type OwnService } from '../support/own-service.ts';
import { ownStage } from '../support/own-stage.ts';
import { freePort, until } from '../support/serving.ts';

const SECOND = 1_000;
const DAY = 86_400_000;
const OAUTH = { type: 'oauth', client_id: 'client', client_secret: 'a-secret-of-the-test' } as const;

const seconds = (ms: number): string => String(Math.round(ms / SECOND));

type Told = (ms: number) => Record<string, string>;
const retryAfter: Told = (ms) => ({ 'retry-after': seconds(ms) });

/** How long the service asks to be left alone, and in which words. */
const ASKED: readonly [string, number, Told][] = [
  ['a second more than a day, in seconds', DAY + SECOND, retryAfter],
  ['longer than anything can wait', 100 * LONGEST_WAIT_MS, retryAfter],
];

const page = (url: URL): Reply => {
  const at = Number(url.searchParams.get('cursor') ?? 1);
  return { body: { data: [{ id: at }], next_cursor: at < 3 ? String(at + 1) : null } };
};

/** When the next run may ask, as it is stored for each resource. */
async function dueIn(stage: Journey, now: number): Promise<number> {
  const due = await stage.value<string>('SELECT due_at FROM _sync_checkpoints');
  return timestampMs(due ?? '') - now;
}

/** Runs twice, the second time within the wait, and once more after it. */
async function expectPutOff(
  database: TestDatabase,
  stage: OwnService,
  asked: number,
  requests: string[],
): Promise<void> {
  const clock = pushedClock(new Date().toISOString(), 50);
  const began = clock.now();
  const first = await stage.run('backfill', { clock });
  expect([first.status, EXIT_CODES[first.status]]).toEqual(['deferred', 4]);
  const stated = Math.min(asked, LONGEST_WAIT_MS);
  const due = await dueIn(stage, began);
  expect(due).toBeGreaterThanOrEqual(stated - SECOND);
  // Up to a second of our own is laid on top; the rest is what the machine was busy with.
  expect(due).toBeLessThanOrEqual(stated + clock.now() - began + 2 * SECOND);

  const before = requests.length;
  for (const command of ['sync', 'backfill'] as const) {
    clock.push(stated / 3);
    expect((await stage.run(command, { clock })).status).toBe('deferred');
  }
  expect(requests).toHaveLength(before);

  clock.push(stated / 3 + 5 * SECOND);
  // The clock of the database, by which processes on it share a budget, cannot be put forward.
  if (database.name === 'postgres') await stage.write('DELETE FROM content_sync.budgets');
  expect((await stage.run('backfill', { clock })).status).toBe('ok');
  expect(await stage.value('SELECT count(*) FROM report')).toBe(3);
}

// A wait is decided above the databases: the soak tries the other one.
describe.for([USUAL])('a wait beyond max_wait, on $name', (database) => {
  it.each(ASKED)('of %s ends the run, which is put off until then', async (_name, asked, told) => {
    const stage = await ownService(database, {}, (url, count) =>
      count === 2 ? { status: 429, headers: told(asked) } : page(url),
    );
    await expectPutOff(database, stage, asked, stage.service.requests);
  });

  it.each([
    ['beside the service', 429, retryAfter],
    ['beside the service, which fails', 503, retryAfter],
    ['beside the service, by the standard field', 429, (ms: number) => ({ ratelimit: `"p";r=0;t=${seconds(ms)}` })],
  ])('that a token endpoint %s asks for ends it as well', async (_name, status, told) => {
    const tokens = await startListing((_, count) => {
      if (count === 1) return { status, headers: told(2 * DAY) };
      const headers = { 'content-type': 'application/json' };
      return { headers, body: { access_token: 'token', token_type: 'bearer', expires_in: 60 } };
    });
    const auth = { ...OAUTH, token_url: `${tokens.url.origin}/token` };
    const stage = await ownService(database, {}, page, { auth });
    await expectPutOff(database, stage, 2 * DAY, tokens.requests);
    expect(tokens.requests).toHaveLength(2);
  });

  it('is waited for where max_wait is as long: the request goes on after it, and not before', async () => {
    const stage = await ownService(database, {}, (url, count) =>
      count === 2 ? { status: 429, headers: retryAfter(SECOND) } : page(url),
    );
    const clock = pushedClock(new Date().toISOString(), 50);
    const began = clock.monotonic();
    expect((await stage.run('backfill', { clock })).status).toBe('ok');
    expect(clock.monotonic() - began).toBeGreaterThanOrEqual(SECOND);
  });
});

function rows(stage: Journey): Promise<unknown> {
  return stage.value('SELECT count(*) FROM report');
}

// Processes on Postgres share the wait, those on SQLite do not.
describe.for(DATABASES)('a wait that is a mistake, on $name', (database) => {
  const refused = { status: 429, headers: retryAfter(1_000 * DAY) };
  const whole = { body: { data: [{ id: 1 }], next_cursor: null } };
  const refusing = (times: number) => ownService(database, {}, (_, count) => (count <= times ? refused : whole));

  it('is shown with the command that lifts it: retry --now sends one request, and what that is told counts', async () => {
    const stage = await refusing(2);
    expect((await stage.run('backfill')).resources[0]?.error?.hint).toContain('content-sync control retry --now');
    expect(await stage.command('retry')).toMatchObject({ code: 1 });
    expect(stage.service.requests).toHaveLength(1);

    expect(await stage.command('retry', '--now')).toMatchObject({ code: 4 });
    expect((await stage.run('sync')).status).toBe('deferred');
    expect(stage.service.requests).toHaveLength(2);

    expect(await stage.command('retry', 'report', '--now')).toMatchObject({ code: 0, stderr: '' });
    expect(stage.service.requests).toHaveLength(3);
    const due = await stage.value('SELECT due_at FROM _sync_checkpoints');
    expect(due ?? null).toBeNull();
    expect((await stage.run('sync')).status).toBe('ok');
    expect(await rows(stage)).toBe(1);
  });

  it('is lifted by another rate_limit in the profile, also for check', async () => {
    const stage = await refusing(1);
    expect((await stage.run('backfill')).status).toBe('deferred');
    stage.setReport({}, { rate_limit: { headers: [{ name: 'retry-after', means: 'retry_after', unit: 'ms' }] } });
    await stage.command('check');
    expect(stage.service.requests.length).toBeGreaterThan(1);
    expect((await stage.run('sync')).status).toBe('ok');
  });

  it('is lifted in a running serve', async () => {
    const stage = await refusing(1);
    const serving = stage.start('serve', '--port', String(await freePort()));
    await until('put off', async () => stage.service.requests.length === 1 && (await dueIn(stage, 0)) > 0);
    expect(await stage.command('retry', '--now')).toMatchObject({ code: 0, stderr: '' });
    await until('copied', async () => (await rows(stage)) === 1);
    serving.kill('SIGTERM');
    expect(await serving.ended).toMatchObject({ code: 0 });
  });
});

const AHEAD = { ...systemClock, now: () => systemClock.now() + 30 * DAY };
const RECORDS = Array.from({ length: 10 }, (_, at) => ({ id: at + 1, updated_at: '2024-01-01T00:00:00Z', n: at }));
const EDITED = RECORDS.map(({ id }) => ({ id, updated_at: '2024-02-01T00:00:00Z', n: -1 }));
const NEWEST = "SELECT last_run_status AS status FROM sync_freshness WHERE resource = 'content'";
const FUTURE = `SELECT (SELECT count(*) FROM _sync_runs WHERE started_at > datetime('now', '+1 minute') OR finished_at > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM content WHERE _synced_at > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM _sync_versions WHERE valid_from > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM _sync_checkpoints WHERE last_success_at > datetime('now', '+1 minute') OR last_full_at > datetime('now', '+1 minute')) AS n`;

describe.for(DATABASES)('a run whose clock was 30 days ahead, on $name', (database) => {
  it('hides neither the runs after it nor the deletes', async () => {
    const stage = await ownStage(database, RECORDS, {
      content: { history: 'all' },
      source: { deletes: { settle: '0s' } },
    });
    stage.service.put(...EDITED);
    await stage.run('backfill', { clock: AHEAD });
    stage.service.records.delete('3');
    const report = await stage.walk();
    expect(report.warnings).toContainEqual(expect.objectContaining({ code: 'clock_was_ahead' }));
    expect(Number((await stage.rows(FUTURE))[0]?.['n'])).toBe(0);
    expect(await stage.live()).not.toContain('3');

    stage.setSource({ base_url: `${stage.service.url}/nowhere` });
    expect(await stage.walk('sync')).toMatchObject({ status: 'failed' });
    expect(await rowsOf(stage.address, NEWEST)).toEqual([{ status: 'failed' }]);
  });
});
