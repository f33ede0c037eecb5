import Database from 'better-sqlite3';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StatusSnapshot } from '../../src/server/status/snapshot.ts';
import { findChromium, startChromium } from '../support/chromium.ts';
import { SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { controlsIn, eventBody, openServingStage, resourceIn, type Serving, type ServingStage, until } from '../support/serving.ts';

const executable = findChromium();
const AUTH = { user: 'ops', password: 'a long enough password' };
const AUTHORIZATION = `Basic ${Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64')}`;

/** A statement that has the delete of a resource's first record wait for a person. */
function held(name: string): string {
  return `INSERT INTO _sync_suspects (resource, record_id, reason, state, sweeps, found_at, evidence_at)
    SELECT '${name}', min(id), 'missing', 'held', 2, '2026-01-01 00:00:00.000', '2026-01-01 00:00:00.000' FROM ${name}`;
}

/** A `serve` whose page an operator uses: in this order, because each step begins where the one before ended. */
describe.skipIf(executable === null)('the controls of the page of a running serve', { timeout: 120_000 }, () => {
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let stage: ServingStage;
  let serving: Serving;

  const status = async (): Promise<StatusSnapshot> => {
    const answer = await fetch(`${serving.url}/status.json`, { headers: { authorization: AUTHORIZATION } });
    const read: StatusSnapshot = JSON.parse(await answer.text());
    return read;
  };
  const resource = async (name: string) => resourceIn(await status(), name);
  const press = async (at: string, name: string): Promise<string> => {
    await page.goto(`${serving.url}${at}`);
    await page.locator('.title').getByRole('button', { name, exact: true }).first().click();
    await page.locator('#told').waitFor();
    return page.locator('#told').innerText();
  };

  beforeAll(async () => {
    browser = await startChromium(executable ?? '');
    context = await browser.newContext({ httpCredentials: { username: AUTH.user, password: AUTH.password } });
    page = await context.newPage();
    const generate = { content: longOrShort(800, 400), images: 40, analytics: 40 };
    const sandbox = { generate, latency: longOrShort(120, 240) };
    stage = await openServingStage({ database: SQLITE, sandbox, settings: { serve: { auth: AUTH } }, isInside: true });
    serving = await stage.serve();
  });
  afterAll(async () => {
    await browser?.close();
    await stage?.close();
  });

  it('pauses a backfill under way, shows that and by whom, lets it go on, and walks again', async () => {
    await until('under way', async () => ((await resource('content')).running?.pages ?? 0) > 1);
    expect(await press('/sources/blog/content', 'Pause')).toContain('content');
    await until('paused', async () => {
      const { paused, running } = await resource('content');
      return (paused !== null && running === null) || { paused, running };
    });
    await page.goto(`${serving.url}/sources/blog/content`);
    expect(await page.locator('.resources td').nth(1).innerText()).toMatch(/Paused\s+by ops/);
    expect(await page.locator('.attention').innerText()).toContain('ops');
    await press('/sources/blog/content', 'Resume');
    await until('whole', async () => (await resource('content')).last_full_at !== null || (await resource('content')));
    await until('others whole', async () => (await resource('analytics')).last_full_at !== null);
    expect((await resource('content')).paused).toBeNull();
    const before = (await resource('images')).last_full_at ?? 0;
    await page.goto(`${serving.url}/sources/blog`);
    await page.getByText('Full scan…').click();
    await page.getByRole('button', { name: 'Begin the full scan' }).click();
    await page.locator('#told').waitFor();
    await until('walked', async () => ((await resource('images')).last_full_at ?? 0) > before);
    // The dead deliveries of below.
    for (const at of [1, 2]) {
      expect(await serving.deliver({ id: `told-${at}`, body: eventBody({ resource: 'content', id: 'x' }) })).toBe(202);
    }
    await stage.settled();
  });

  it('reads the config again: a bad one is refused and said, a good one is taken', async () => {
    stage.configure({ settings: { serve: { auth: AUTH }, nonsense: true } });
    await page.goto(`${serving.url}/`);
    await page.getByRole('button', { name: 'Reload config' }).click();
    expect(await page.locator('#told.late').innerText()).toContain('nonsense');
    stage.configure({ settings: { serve: { auth: AUTH } }, sources: { blog: {}, shop: {} } });
    await page.getByRole('button', { name: 'Reload config' }).click();
    await page.locator('#told.fine').waitFor();
    await until('there', async () => (await status()).sources.length === 2);
    expect((await page.goto(`${serving.url}/sources/shop/images`))?.status()).toBe(200);
  });

  it('has an audit line for each of them', async () => {
    const lines = controlsIn(serving);
    expect(lines.map(({ control }) => control.action)).toEqual(['pause', 'resume', 'sync', 'reload', 'reload']);
    expect(new Set(lines.map(({ via, by }) => `${via} ${by}`))).toEqual(new Set(['page ops']));
  });

  it('discards and confirms held deletes, retries a refused resource, and replays what is dead', async () => {
    await serving.stop();
    await stage.change(held('content'));
    await stage.change(held('images'));
    const refused = "status = 'failed', error_code = 'auth_refused', error = 'the key was revoked'";
    await stage.change(`UPDATE _sync_runs SET ${refused} WHERE resource = 'analytics'`);
    const inbox = new Database(stage.inboxFile());
    inbox.exec("UPDATE _sync_deliveries SET state = 'dead', reason = 'eight times in vain' WHERE seq <= 2");
    inbox.close();
    serving = await stage.serve();
    const decide = async (at: string, fold: string, name: string): Promise<void> => {
      await page.goto(`${serving.url}${at}`);
      await page.getByText(fold).click();
      await page.getByRole('button', { name }).click();
      await page.locator('#told.fine').waitFor();
    };
    await until('open', async () => (await resource('images')).suspects.held === 1);
    await decide('/sources/blog/content', 'They are not…', 'Discard these deletes');
    await decide('/sources/blog/images', 'They are gone…', 'Confirm these deletes');
    expect(await press('/sources/blog/analytics', 'Retry')).toContain('analytics');
    await page.goto(`${serving.url}/sources/blog`);
    await page.locator('#deliveries').getByRole('button', { name: 'Replay all dead' }).click();
    await page.locator('#told.fine').waitFor();
    const done = controlsIn(serving).filter((line) => line.done && line.by === 'ops');
    expect(done.map(({ control }) => control.action)).toEqual(['discard', 'confirm', 'retry', 'replay']);
    // The service has it still: what was confirmed was read once more, and stays.
    await stage.settled();
  });
});
