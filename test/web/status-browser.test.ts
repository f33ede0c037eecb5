import path from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { StatusSnapshot } from '../../src/serve/status/snapshot.ts';
import { findChromium, startChromium } from '../support/chromium.ts';
import { pagesOf, servePages, type PageServer } from './page-server.ts';
import { contrastFaults } from './page-contrast.ts';
import { NOW, emptySnapshot, resourceWith, richSnapshot, snapshotWith, sourceWith } from './sample-status.ts';

const executable = findChromium();
/** After so long the page has looked again. */
const REFRESH_MS = 5_100;

interface Visit {
  page: Page;
  server: PageServer;
  /** Everything that the browser complained of. */
  complaints: string[];
  /** What the pages show from now on. */
  show: (snapshot: StatusSnapshot) => void;
}

describe.skipIf(executable === null)('the status page in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium(executable ?? '');
  });
  afterAll(() => browser.close());

  async function visit(snapshot: StatusSnapshot, options: BrowserContextOptions = {}): Promise<Visit> {
    let shown = snapshot;
    const server = await servePages(pagesOf(() => shown));
    const context = await browser.newContext(options);
    onTestFinished(async () => {
      await context.close();
      await server.close();
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(server.url) && !url.startsWith('data:')) complaints.push(`asked for ${url}`);
    });
    await page.clock.install();
    await page.goto(server.url);
    return { page, server, complaints, show: (next) => void (shown = next) };
  }

  /** A folder for pictures of the pages, for a person to look at. */
  const folder = process.env['CONTENT_SYNC_SCREENSHOTS'];
  const looks = [
    { name: 'light', colorScheme: 'light', width: 1280 },
    { name: 'dark', colorScheme: 'dark', width: 1280 },
    { name: 'phone', colorScheme: 'light', width: 390 },
    { name: 'phone-dark', colorScheme: 'dark', width: 390 },
  ] as const;
  const contents = { rich: richSnapshot(), empty: emptySnapshot(), fine: snapshotWith() };

  it.each(looks)('is readable, fits and loads nothing else: $name', async ({ name, colorScheme, width }) => {
    const { page, complaints, server, show } = await visit(contents.rich, {
      colorScheme,
      viewport: { width, height: 900 },
    });
    for (const [content, snapshot] of Object.entries(contents)) {
      if (snapshot !== contents.rich) {
        show(snapshot);
        server.asked.splice(0);
        await page.goto(server.url);
      }
      expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      expect(await contrastFaults(page)).toStrictEqual([]);
      expect(complaints).toStrictEqual([]);
      expect(server.asked).toStrictEqual(['/']);
      if (folder !== undefined) {
        await page.screenshot({ path: path.join(folder, `${content}-${name}.png`), fullPage: true });
      }
    }
  });

  it('shows everything without JavaScript', async () => {
    const { page, complaints } = await visit(richSnapshot(), { javaScriptEnabled: false });
    expect(await page.locator('h2#headline').innerText()).toContain('1 of 9 resources overdue');
    expect(await page.locator('table.resources tbody tr').count()).toBe(9);
    expect(await page.locator('svg.plot').count()).toBe(7);
    expect(complaints).toStrictEqual([]);
  });

  it('brings itself up to date in place, and keeps what is folded, scrolled and focused', async () => {
    const { page, show, complaints } = await visit(richSnapshot(), { viewport: { width: 1000, height: 500 } });
    await page.locator('#blog-history > summary').click();
    await page.locator('#blog-schema > summary').click();
    await page.evaluate('scrollTo(0, 700)');
    show({ ...richSnapshot(), at: NOW + 5_000, version: '9.9.9' });
    await page.clock.fastForward(REFRESH_MS);
    await page.getByText('content-sync 9.9.9').waitFor({ state: 'attached' });
    const after = await page.evaluate(`({
      history: document.querySelector('#blog-history').open,
      schema: document.querySelector('#blog-schema').open,
      focus: document.activeElement.parentElement.id,
      y: scrollY,
    })`);
    expect(after).toStrictEqual({ history: false, schema: true, focus: 'blog-schema', y: 700 });
    expect(complaints).toStrictEqual([]);
  });

  it('says when the connection is lost, and recovers by itself', async () => {
    const { page, server } = await visit(snapshotWith());
    await server.close();
    const lost = page.locator('#lost');
    await page.clock.fastForward(REFRESH_MS);
    await lost.waitFor({ state: 'visible' });
    expect(await lost.innerText()).toContain('as of 2026-11-20 14:22:37 UTC');
    const again = await servePages(
      pagesOf(() => snapshotWith({ version: '9.9.9' })),
      Number(new URL(server.url).port),
    );
    onTestFinished(() => again.close());
    await page.clock.fastForward(2 * REFRESH_MS);
    await lost.waitFor({ state: 'hidden' });
    expect(await page.locator('footer').innerText()).toContain('9.9.9');
  });

  it('asks for nothing while its tab is hidden, and at once when it is seen again', async () => {
    const { page, server } = await visit(snapshotWith());
    const setHidden = (hidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${hidden} });
        document.dispatchEvent(new Event('visibilitychange'))`);
    await setHidden(true);
    await page.clock.runFor(20 * REFRESH_MS);
    expect(server.asked).toHaveLength(1);
    await setHidden(false);
    await expect.poll(() => server.asked.length, { timeout: 10_000 }).toBe(2);
  });

  it('runs no script and shows no markup that a service sent', async () => {
    const attack = `</td></table><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`;
    const resource = resourceWith(attack, {
      rejects: [{ reason: attack, count: 1, last_seen_at: NOW, example: attack }],
      owner: { name: attack, since: NOW },
    });
    const { page, complaints } = await visit(
      snapshotWith({ sources: [sourceWith('blog', { resources: [resource] })] }),
    );
    expect(await page.title()).toBe('(2) content-sync');
    expect(await page.locator('main img, main script').count()).toBe(0);
    expect(await page.locator('table.resources tbody th').innerText()).toBe(attack);
    expect(complaints).toStrictEqual([]);
  });

  it('has one heading of the first level, headings in order, and names for all tables and pictures', async () => {
    const { page } = await visit(richSnapshot());
    const outline = await page.locator('h1, h2, h3, h4').evaluateAll((all) => all.map((one) => Number(one.tagName[1])));
    expect(outline.filter((level) => level === 1)).toHaveLength(1);
    expect(outline.every((level, at) => level <= (outline[at - 1] ?? 0) + 1)).toBe(true);
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    expect(await page.locator('table th:not([scope])').count()).toBe(0);
    for (const name of await page.locator('svg[role=img] > desc').allInnerTexts()) expect(name).not.toBe('');
    const ids = await page.locator('[id]').evaluateAll((all) => all.map((one) => one.id));
    expect(new Set(ids).size).toBe(ids.length);
  });
});
