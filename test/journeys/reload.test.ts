import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { DATABASES, POSTGRES, SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import {
  eventBody,
  resourceIn,
  type Serving,
  servingStage,
  type ServingStage,
  sourceIn,
  until,
} from '../support/serving.ts';
import { startWorker } from './workers-story.ts';

/** The worker below is told the same on Postgres. */
const EITHER = longOrShort(DATABASES, [SQLITE]);

/** Between two deliveries of a storm. */
const BETWEEN_MS = longOrShort(10, 40);

type Fields = Record<string, unknown>;

interface Written extends Fields {
  sources: Record<string, Fields>;
}

/** Changes what the config says, as an operator with an editor does. */
function edit(stage: ServingStage, change: (settings: Written) => void, file = 'content-sync.yaml'): void {
  const at = path.join(stage.folder, file);
  const settings: Written = JSON.parse(readFileSync(at, 'utf8'));
  change(settings);
  writeFileSync(at, JSON.stringify(settings, null, 2));
}

/** What the log says of the readings of the settings, one line each. */
function told({ command }: Serving): string[] {
  const lines = command
    .logged()
    .split('\n')
    .filter((line) => line.includes('the settings were read again'));
  return lines.map((line) => JSON.parse(line).msg);
}

/** Tells the process, and waits for what it says. */
async function reload(serving: Serving): Promise<string> {
  const before = told(serving).length;
  serving.command.kill('SIGHUP');
  await until('reloaded', () => told(serving).length > before);
  return told(serving).at(-1) ?? '';
}

/** Sends deliveries until it is stopped; the statuses of all of them. */
function steadily(serving: Serving, source: string) {
  const statuses: number[] = [];
  const over = new AbortController();
  const sending = (async () => {
    while (!over.signal.aborted) {
      const body = eventBody({ resource: 'content', id: 'told' });
      statuses.push(await serving.deliver({ id: `msg_${statuses.length}`, body, source }));
      await delay(BETWEEN_MS);
    }
  })();
  return {
    stop: async () => {
      over.abort();
      await sending;
      return statuses;
    },
  };
}

const RECORDS = { content: 600, images: 5, analytics: 5 };
const SLOW = { rate: { requests_per_second: 4 }, resources: ['content'] };

describe.each(EITHER)('settings that are read again, on $name', { timeout: 120_000 }, (database) => {
  it('change what has changed: a walk of another source goes on, no delivery is refused, and nothing is lost', async () => {
    const sources = { blog: { resources: ['images', 'content'] }, slow: SLOW };
    const stage = await servingStage({ sandbox: { generate: RECORDS }, sources, database, isInside: true });
    const serving = await stage.serve();
    await until(
      'under way',
      async () => (resourceIn(await serving.status(), 'content', 'slow').running?.pages ?? 0) > 2,
    );

    // A slip: the field is told with its line, and all goes on.
    edit(stage, ({ sources: { blog } }) => Object.assign(blog ?? {}, { shedule: {} }));
    expect(await reload(serving)).toMatch(
      /the running ones stay: .*content-sync\.yaml:\d+:\d+ {2}sources\.blog\.shedule: /,
    );
    const [slip] = (await serving.status()).attention;
    expect(slip).toMatchObject({
      severity: 'look',
      source: '',
      what: expect.stringContaining('sources.blog.shedule'),
    });
    expect((await serving.page('/')).body).toContain('sources.blog.shedule');

    const sender = steadily(serving, 'blog');
    edit(stage, (settings) => {
      const { blog, slow } = settings.sources;
      delete blog?.['shedule'];
      Object.assign(blog ?? {}, { max_wait: '7m', rate: { share: 0.5 } });
      settings.sources['news'] = { ...slow, rate: {} };
      Object.assign(settings, { log: { level: 'debug' }, serve: { port: 1 } });
    });
    expect(await reload(serving)).toMatch(
      /news was added; blog has changed \(.*\); serve\.port changes with the next start; log has changed; unchanged: slow/,
    );
    await stage.fresh(serving, 'news');
    // New settings again and again, under a storm.
    for (const max_wait of longOrShort(['8m', '9m', '10m'], ['8m'])) {
      edit(stage, ({ sources: { blog } }) => Object.assign(blog ?? {}, { max_wait }));
      expect(await reload(serving)).toContain('blog has changed (max_wait); unchanged: slow, news');
    }
    stage.write('content', 'told', { title: 'after all' });
    await delay(100);
    const statuses = await sender.stop();
    expect(statuses.length).toBeGreaterThan(5);
    expect(statuses.filter((status) => status !== 202)).toEqual([]);
    await stage.fresh(serving, 'blog');
    const waiting = (): Promise<unknown> =>
      stage.inbox.value("SELECT count(*) FROM _sync_deliveries WHERE state = 'waiting'");
    await until('worked on', async () => Number(await waiting()) === 0);
    expect(await stage.inbox.value('SELECT count(*) FROM _sync_deliveries')).toBe(statuses.length);
    const title = (source: string): Promise<unknown> =>
      stage.read((db) => db.prepare("SELECT title FROM content WHERE id = 'told'").pluck().get(), source);
    expect(await title('blog')).toBe('after all');
    expect(serving.command.logged()).toContain('"level":"debug"');
    expect((await serving.status()).attention).toEqual([]);

    // The walk that was under way at the beginning has never been interrupted.
    await stage.fresh(serving, 'slow');
    const runs = await stage.read((db) => db.prepare('SELECT status FROM _sync_runs').pluck().all(), 'slow');
    expect(runs).toEqual(['ok']);

    // A source that is taken out is closed; the others go on.
    edit(stage, ({ sources: all }) => void delete all['blog']);
    expect(await reload(serving)).toContain('blog was taken out; unchanged: slow, news');
    expect((await serving.status()).sources.map(({ source }) => source)).toEqual(['slow', 'news']);
    const delivery = { id: 'later', body: eventBody({ resource: 'content', id: 'told' }) };
    expect(await serving.deliver(delivery)).toBe(404);
    expect(await serving.deliver({ ...delivery, source: 'slow' })).toBe(202);
    if (database === SQLITE) for (const file of [stage.file(), stage.inboxFile()]) rmSync(file);
    // It may come back.
    edit(stage, ({ sources: all }) => void (all['blog'] = { ...all['news'], resources: ['images'] }));
    await reload(serving);
    await stage.fresh(serving, 'blog');
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});

describe('settings in other files', { timeout: 120_000 }, () => {
  it('bring a new credential, password and profile from other files, and the source is tried again at once', async () => {
    const generate = { content: 30, images: 3, analytics: 3 };
    const stage = await servingStage({ sandbox: { generate }, isInside: true });
    const key = path.join(stage.folder, 'key.txt');
    writeFileSync(key, 'revoked-key-of-yesterday', { mode: 0o600 });
    writeFileSync(path.join(stage.folder, '.env'), 'PAGE_PASSWORD=the-first-password\n', { mode: 0o600 });
    edit(stage, (settings) => {
      settings['serve'] = { auth: { user: 'me', password: '${PAGE_PASSWORD}' } };
      Object.assign(settings.sources['blog'] ?? {}, { auth: { type: 'api_key', key: `\${file:${key}}` } });
    });
    const serving = await stage.serve();
    const as = (password: string) => async (at: string) => {
      const authorization = `Basic ${Buffer.from(`me:${password}`).toString('base64')}`;
      return fetch(`${serving.url}${at}`, { headers: { authorization } });
    };
    const first = as('the-first-password');
    const refused = async (): Promise<unknown> => (await (await first('/')).text()).includes('[auth_failed]');
    await until('refused', refused);

    writeFileSync(key, stage.sandbox.apiKey);
    writeFileSync(path.join(stage.folder, '.env'), 'PAGE_PASSWORD=the-second-password\n');
    edit(stage, (profile) => Object.assign(profile, { http: { concurrency: 2 } }), 'profile.yaml');
    expect(await reload(serving)).toMatch(/blog has changed \(auth, profile\); serve\.auth has changed/);
    expect((await first('/')).status).toBe(401);
    const second = as('the-second-password');
    await until('fresh', async () => {
      const snapshot: Awaited<ReturnType<Serving['status']>> = JSON.parse(await (await second('/status.json')).text());
      const { resources } = sourceIn(snapshot);
      return resources.every(({ last_full_at }) => last_full_at !== null) && snapshot.attention.length === 0;
    });
    // The new secrets are kept out of the log as the old ones are.
    expect(serving.command.logged()).not.toMatch(/second-password|revoked-key/);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});

describe('a worker', { timeout: 120_000 }, () => {
  it('reads its settings again, gives back the walk whose settings changed, and takes up what is new', async () => {
    const sources = { blog: SLOW };
    const stage = await servingStage({ sandbox: { generate: RECORDS }, sources, database: POSTGRES });
    // The worker is a process of its own, and told what this one is told.
    const serving = await stage.serve({ isInside: true });
    await until('under way', async () => (resourceIn(await serving.status(), 'content').running?.pages ?? 1) > 0);
    const worker = await startWorker(stage);
    edit(stage, ({ sources: all }) => {
      all['news'] = { ...all['blog'], rate: {} };
      Object.assign(all['blog'] ?? {}, { rate: { requests_per_second: 60 } });
    });
    worker.kill('SIGHUP');
    await until('reloaded', () => worker.logged().includes('news was added; blog has changed (rate)'));
    expect(await reload(serving)).toContain('news was added; blog has changed (rate)');
    await stage.fresh(serving, 'blog');
    await stage.fresh(serving, 'news');
    expect(await stage.value('SELECT count(*) FROM content')).toBe(RECORDS.content);
    edit(stage, (settings) => Object.assign(settings, { warehouse: 'sqlite:other.db' }));
    worker.kill('SIGHUP');
    await until('refused', () => worker.logged().includes('the running ones stay: '));
    worker.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 0 });
  });
});
