import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import type { StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import type { PagesOptions } from '../../../src/server/endpoints/status-pages.ts';
import { pagesOf, servePages, type PageServer } from './page-server.ts';

interface Visit {
  page: Page;
  server: PageServer;
  /** Everything that the browser complained of. */
  complaints: string[];
  /** What the pages show from now on. */
  show: (snapshot: StatusSnapshot) => void;
}

/** Opens the pages of a snapshot in a browser context of its own, with its clock in our hands. */
export async function visit(
  browser: Browser,
  snapshot: StatusSnapshot,
  options: BrowserContextOptions = {},
  pagesOptions: Partial<PagesOptions> = {},
): Promise<Visit> {
  let shown = snapshot;
  const server = await servePages(pagesOf(() => shown, pagesOptions));
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
