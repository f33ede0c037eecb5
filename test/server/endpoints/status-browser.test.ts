import path from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import { findChromium, startChromium } from '../../support/chromium.ts';
import { sampled } from '../../support/length.ts';
import { detailsOf, manySources } from './many-sources.ts';
import { contrastFaults } from './page-contrast.ts';
import { layoutFaults } from './page-layout.ts';
import { pagesOf, servePages } from './page-server.ts';
import { visit } from './page-visit.ts';
import { emptySnapshot, NOW, resourceWith, richSnapshot, snapshotWith, sourceWith } from './sample-status.ts';

const executable = findChromium();
/** After so long the page has looked again. */
const REFRESH_MS = 5_100;

const details = () => Promise.resolve(detailsOf(['content', 'images', 'analytics']));

describe.skipIf(executable === null)('the status page in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium(executable ?? '');
  });
  afterAll(() => browser.close());

  /** A folder for pictures of the pages, for a person to look at. */
  const folder = process.env['CONTENT_SYNC_SCREENSHOTS'];
  const looks = [
    { name: 'light', colorScheme: 'light', width: 1280 },
    { name: 'dark', colorScheme: 'dark', width: 1280 },
  ] as const;
  const contents: Readonly<Record<string, readonly [StatusSnapshot, string]>> = {
    rich: [richSnapshot(), ''],
    empty: [emptySnapshot(), ''],
    fine: [snapshotWith(), ''],
    nothing: [snapshotWith({ sources: [] }), ''],
    six: [manySources(6), ''],
    hundred: [manySources(100), ''],
    source: [richSnapshot(), 'sources/blog'],
  };

  const all = Object.entries(contents);

  it.each(looks)('is readable, fits and loads nothing else: $name', async ({ name, colorScheme, width }) => {
    const look = { colorScheme, viewport: { width, height: 900 } } as const;
    const { page, complaints, server, show } = await visit(browser, richSnapshot(), look, {
      details,
    });
    for (const [content, [snapshot, at]] of name === 'light' ? all : sampled(all, 3)) {
      show(snapshot);
      server.asked.splice(0);
      await page.goto(`${server.url}${at}`);
      const faults = [...(await layoutFaults(page)), ...(await contrastFaults(page))];
      expect({ content, faults }).toStrictEqual({ content, faults: [] });
      expect(complaints).toStrictEqual([]);
      expect(server.asked).toStrictEqual([`/${at}`]);
      if (folder !== undefined) {
        await page.screenshot({ path: path.join(folder, `${content}-${name}.png`), fullPage: true });
      }
    }
  });

  it('brings itself up to date in place, and keeps what is folded, scrolled and focused', async () => {
    const { page, show, complaints } = await visit(browser, richSnapshot(), { viewport: { width: 1000, height: 500 } });
    await page.locator('#blog-history > summary').click();
    await page.evaluate('scrollTo(0, 700)');
    show({ ...richSnapshot(), at: NOW + 5_000, version: '9.9.9' });
    await page.clock.fastForward(REFRESH_MS);
    await page.getByText('content-sync 9.9.9').waitFor({ state: 'attached' });
    const after = await page.evaluate(`({
      history: document.querySelector('#blog-history').open,
      focus: document.activeElement.parentElement.id,
      y: scrollY,
    })`);
    expect(after).toStrictEqual({ history: false, focus: 'blog-history', y: 700 });
    expect(complaints).toStrictEqual([]);
  });

  it('says when the connection is lost, and recovers by itself', async () => {
    const { page, server } = await visit(browser, snapshotWith());
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

  it('runs no script and shows no markup that a service sent', async () => {
    const attack = `</td></table><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`;
    const resource = resourceWith(attack, {
      rejects: [{ reason: attack, count: 1 }],
      owner: { name: attack, since: NOW },
    });
    const { page, complaints } = await visit(
      browser,
      snapshotWith({ sources: [sourceWith('blog', { resources: [resource] })] }),
    );
    expect(await page.title()).toBe('(2) content-sync');
    expect(await page.locator('main img, main script').count()).toBe(0);
    expect(await page.locator('table.resources tbody th').innerText()).toBe(attack);
    expect(complaints).toStrictEqual([]);
  });
});
