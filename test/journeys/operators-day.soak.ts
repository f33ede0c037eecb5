import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import type { Attention } from '../../src/serve/status/attention.ts';
import type { StatusSnapshot } from '../../src/serve/status/snapshot.ts';
import { alertReceiver } from '../support/alert-receiver.ts';
import { findChromium, startChromium } from '../support/chromium.ts';
import { DATABASES, USUAL } from '../support/databases.ts';
import { resourceIn, servingStage, until, type Serving, type ServingStage } from '../support/serving.ts';

const executable = findChromium();
const AUTH = { user: 'ops', password: 'a long enough password' };
const AUTHORIZATION = `Basic ${Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64')}`;
const QUICK = { group_wait: '0s' };
const KEY = 'key_successor_0123456789';

/** How an operator tells a `serve` something, and what is answered to that. */
interface Operator {
  /** What is said to need attention. */
  seen(): Promise<string>;
  reload(): Promise<string>;
  retry(): Promise<string>;
}

function atPage(page: Page, { url }: Serving): Operator {
  const press = async (at: string, name: string): Promise<string> => {
    await page.goto(`${url}${at}`);
    await page.getByRole('button', { name, exact: true }).first().click();
    await page.locator('#told').waitFor();
    return page.locator('#told').innerText();
  };
  return {
    seen: async () => {
      await page.goto(url);
      const list = page.locator('.attention');
      await list.first().waitFor({ state: 'visible' });
      return (await list.allInnerTexts()).join('\n');
    },
    reload: () => press('/', 'Reload config'),
    retry: () => press('/sources/blog/content', 'Retry'),
  };
}

function atTerminal(stage: ServingStage): Operator {
  const told = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await stage.run(...args);
    return stdout + stderr;
  };
  return {
    seen: () => told('status'),
    reload: () => told('reload'),
    retry: () => told('retry', '--source', 'blog', 'content'),
  };
}

describe("an operator's day", { timeout: 120_000 }, () => {
  let browser: Browser | null = null;
  beforeAll(async () => {
    if (executable !== null) browser = await startChromium(executable);
  });
  afterAll(() => browser?.close());

  // On the other database than the usual one the operator is at a terminal.
  it.for(DATABASES)(
    'goes from a revoked credential to a green page on $name, and nothing is restarted',
    async (database) => {
      const { posted, url } = await alertReceiver();
      const chat = await alertReceiver();
      // Of another service, whose first copy is on its way all the while.
      const other = await startSandbox({ generate: { content: 2_000, images: 5, analytics: 5 }, rate: 2, burst: 2 });
      onTestFinished(() => other.close());
      const shop = { base_url: other.url, auth: { type: 'api_key', key: other.apiKey } };
      const stage = await servingStage({
        database,
        sandbox: { generate: { content: 60, images: 5, analytics: 5 } },
        settings: {
          serve: { auth: AUTH },
          alerts: { ops: { type: 'post', url, ...QUICK }, chat: { type: 'slack', url: chat.url, ...QUICK } },
        },
        sources: { blog: {}, shop },
      });
      const withKey = (key: string) => stage.configure({ sources: { blog: { auth: { type: 'api_key', key } }, shop } });
      const serving = await stage.serve();
      const context =
        database === USUAL
          ? await browser?.newContext({ httpCredentials: { username: AUTH.user, password: AUTH.password } })
          : undefined;
      const operator = context === undefined ? atTerminal(stage) : atPage(await context.newPage(), serving);
      const status = async (): Promise<StatusSnapshot & { attention: Attention[] }> => {
        const answer = await fetch(`${serving.url}/status.json`, { headers: { authorization: AUTHORIZATION } });
        return JSON.parse(await answer.text());
      };
      const attention = async (): Promise<Attention[]> => (await status()).attention;
      await until('copied', async () => {
        const { sources } = await status();
        const left = sources
          .find(({ source }) => source === 'blog')
          ?.resources.filter((one) => one.last_full_at === null);
        return left?.length === 0 || left;
      });
      await until('under way', async () => (resourceIn(await status(), 'content', 'shop').running?.pages ?? 0) > 1);
      const { started_at } = await status();
      const walk = resourceIn(await status(), 'content', 'shop').running;

      stage.sandbox.changeKey(KEY);
      stage.write('content', 'while-refused', { title: 'Written while nothing could be read' });
      const failed = await stage.run('sync', '--source', 'blog', 'content', '--json');
      expect(failed).toMatchObject({ code: 1 });
      expect(JSON.parse(failed.stdout)).toMatchObject({
        status: 'failed',
        resources: [{ resource: 'content', status: 'failed', error: { code: 'auth_failed' } }],
      });

      await until('told', () => posted.length === 1 && chat.posted.length === 1);
      const alert = JSON.parse(posted[0]?.body ?? '');
      expect(alert).toMatchObject({
        status: 'firing',
        things: [
          { kind: 'failed', source: 'blog', resource: 'content', what: expect.stringContaining('[auth_failed]') },
        ],
      });
      expect(JSON.parse(chat.posted[0]?.body ?? '').text).toContain(alert.things[0].next);
      const [entry] = await attention();
      expect(entry).toMatchObject({ source: 'blog', resource: 'content', next: expect.stringContaining('Check auth') });
      for (const told of [await operator.seen(), alert.text]) expect(told).toContain(entry?.next);
      // Whoever retries before the key is there is told the same again.
      const { total } = stage.sandbox.requests;
      expect(await operator.retry()).toContain('tried again now: content');
      await until('asked again', () => stage.sandbox.requests.total > total);
      await until('refused again', async () => (await attention()).some(({ what }) => what.includes('auth_failed')));

      withKey('${NO_SUCH_KEY}');
      expect(await operator.reload()).toMatch(
        /sources\.blog\.auth\.key: expected the environment variable NO_SUCH_KEY/,
      );
      withKey(KEY);
      expect(await operator.reload()).toContain('blog has changed (auth); unchanged: shop');
      // A source whose settings have changed is begun anew, and may have been read by now.
      expect(await operator.retry()).toMatch(/tried again now: content|nothing had failed/);
      await until('green', async () => (await attention()).length === 0 || attention());
      await until('told of the end', () => posted.length === 2 && chat.posted.length === 2);
      expect(JSON.parse(posted[1]?.body ?? '')).toMatchObject({ title: 'content-sync: over: failed: blog (content)' });
      await stage.settled();
      const after = await status();
      expect(after).toMatchObject({
        started_at,
        attention: [],
        alerts: [
          { problem: null, open: 0 },
          { problem: null, open: 0 },
        ],
      });
      // The walk of the other source is the one that was under way.
      expect(resourceIn(after, 'content', 'shop').running?.started_at).toBe(walk?.started_at);
      expect(posted).toHaveLength(2);
      for (const key of [stage.sandbox.apiKey, KEY]) expect(serving.command.logged()).not.toContain(key);
    },
  );
});
