import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { SourceTables } from '../../../src/server/dictionary/read-dictionary.ts';
import { renderDictionaryPage } from '../../../src/server/page/dictionary-page.ts';
import { findChromium, startChromium } from '../../support/chromium.ts';
import { sampled } from '../../support/length.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { contrastFaults } from './page-contrast.ts';
import { pagesOf, servePages } from './page-server.ts';
import { columnOf, dictionaryWith, largeDictionary, smallDictionary, tableWith } from './sample-dictionary.ts';
import { NOW, snapshotWith } from './sample-status.ts';

const executable = findChromium();

const small = { dictionary: smallDictionary(), counts: { content_live: 12_345, content: 12_346 } };
const large = { dictionary: { ...largeDictionary(), source: 'shop' }, counts: null };
const away = { source: 'press', problem: { code: 'warehouse_unreachable', message: 'no answer', hint: 'start it' } };

describe.skipIf(executable === null)('the page of tables in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium(executable ?? '');
  });
  afterAll(() => browser.close());

  async function open(options: BrowserContextOptions): Promise<{ page: Page; complaints: string[] }> {
    const context = await browser.newContext(options);
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    return { page, complaints };
  }

  async function served(sources: readonly SourceTables[], options: BrowserContextOptions = {}) {
    const server = await servePages(pagesOf(() => snapshotWith(), { tables: () => Promise.resolve([...sources]) }));
    onTestFinished(() => server.close());
    const opened = await open(options);
    await opened.page.goto(`${server.url}tables`);
    return { ...opened, server };
  }

  /** The file that the command writes, opened from the disk. */
  async function fromFile(sources: readonly SourceTables[], javaScriptEnabled = false) {
    const file = path.join(tempFolder(), 'tables.html');
    writeFileSync(file, renderDictionaryPage(sources, { version: '1.2.3', at: NOW }));
    const opened = await open({ javaScriptEnabled });
    await opened.page.goto(pathToFileURL(file).href);
    return opened;
  }

  const folder = process.env['CONTENT_SYNC_SCREENSHOTS'];

  const looks = [
    { name: 'light', colorScheme: 'light', width: 1280 },
    { name: 'dark', colorScheme: 'dark', width: 1280 },
    { name: 'phone', colorScheme: 'dark', width: 390 },
  ] as const;

  it.each(sampled(looks, 2))(
    'is readable, fits and loads nothing else: $name',
    async ({ name, colorScheme, width }) => {
      const viewport = { width, height: 900 };
      const { page, complaints, server } = await served([small, large, away], { colorScheme, viewport });
      expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      expect(await contrastFaults(page)).toStrictEqual([]);
      expect(complaints).toStrictEqual([]);
      expect(server.asked).toStrictEqual(['/tables']);
      if (folder !== undefined)
        await page.screenshot({ path: path.join(folder, `tables-${name}.png`), fullPage: true });
    },
  );

  it.each(['served', 'a file'])('finds tables and columns by what is typed: %s', async (kind) => {
    const { page, complaints } =
      kind === 'served' ? await served([small, large]) : await fromFile([small, large], true);
    const shown = page.locator('details.found:visible');
    const all = await shown.count();
    const rows = page.locator('details.found:visible tbody tr:visible');
    await page.locator('#search').fill('TITLE');
    expect(await rows.count()).toBeGreaterThan(0);
    for (const text of await rows.allInnerTexts()) expect(text.toLowerCase()).toContain('title');
    expect(await page.locator('#blog-relations').isVisible()).toBe(false);
    await page.locator('#search').fill('no such column');
    expect(await shown.count()).toBe(0);
    expect(await page.locator('#blog-tables tbody tr:visible').count()).toBe(0);
    await page.locator('#search').fill('');
    expect(await shown.count()).toBe(all);
    expect(complaints).toStrictEqual([]);
  });

  it('runs no script and shows no markup that a service sent', async () => {
    const attack = `</code></td></svg><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`;
    const column = columnOf(attack, { source: attack, description: attack, references: `${attack}.id`, isKey: true });
    const tables = tableWith(attack).map((table) => Object.assign(table, { columns: [column, ...table.columns] }));
    const dictionary = dictionaryWith([...tables, ...tableWith('content', { x: `${attack}.id` })], {
      relations: [{ from: { table: 'content', column: 'x' }, to: { table: attack, column: 'id' }, kind: 'reference' }],
    });
    for (const { page, complaints } of [
      await served([{ dictionary, counts: null }]),
      await fromFile([{ dictionary, counts: null }]),
    ]) {
      expect(await page.title()).toBe('Tables · content-sync');
      expect(await page.locator('img, main script').count()).toBe(0);
      expect(complaints).toStrictEqual([]);
    }
  });
});
