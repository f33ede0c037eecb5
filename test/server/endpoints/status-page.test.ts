import { describe, expect, it } from 'vitest';
import { renderStatusPage } from '../../../src/server/page/overview.ts';
import type { ResourceStatus } from '../../../src/server/status/snapshot.ts';
import { naughtyStrings } from '../../support/corpora.ts';
import { NOW, resourceWith, richSnapshot, RUNNING, runWith, snapshotWith, sourceWith, NONCE } from './sample-status.ts';

/** The text of a page, without tags. */
function textOf(page: string): string {
  return page
    .replace(/<(style|script|title)\b.*?<\/\1>/gs, '')
    .replace(/<[^>]+>/g, ' ')
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ');
}

function pageWith(resource: Partial<ResourceStatus>): string {
  return renderStatusPage(
    snapshotWith({ sources: [sourceWith('blog', { resources: [resourceWith('content', resource)] })] }),
    NONCE,
  );
}

describe('what the page says', () => {
  it.each<[string, Partial<ResourceStatus>, string]>([
    ['a fresh resource', {}, 'Fresh 4m 12s ago idle in 5m 48s'],
    ['an overdue one', { schedule: { ...resourceWith('x').schedule, overdue_at: NOW - 60_000 } }, 'Overdue 4m 12s ago'],
    ['one that another process owns', { owner: { name: 'pid 7 on box', since: NOW } }, 'Elsewhere pid 7 on box'],
    ['one that the service put off', { parked_until: NOW + 90_000 }, 'Waits service requested; in 1m 30s'],
    [
      'a scan that stopped on its way',
      { unfinished: { mode: 'full', pages: 12, records: 1_200 } },
      'full scan stopped at page 12',
    ],
    [
      'a run that failed',
      { runs: [runWith({ status: 'failed', error: { code: 'no_network', message: 'gone', hint: 'plug it in' } })] },
      'no_network gone → plug it in',
    ],
    [
      'held deletes with the command to decide',
      { suspects: { held: 7, held_since: NOW, held_why: 'too many' } },
      '7 deletes are held: too many; the rows stay live',
    ],
    ['progress', { running: RUNNING }, 'Full scan 62% 74,400 of 120,300 · 212/s · 3m 36s left'],
  ])('shows %s', (_, resource, text) => {
    expect(textOf(pageWith(resource))).toContain(text);
  });

  it.each([
    [30 * 60_000, 'since start'],
    [90 * 60_000, 'last hour'],
  ])('names the time that its figures cover: of a process that runs for %d ms, "%s"', (age, period) => {
    const { at } = richSnapshot();
    const text = textOf(renderStatusPage({ ...richSnapshot(), started_at: at - age }, NONCE));
    for (const what of ['Limit used', 'Requests', 'Webhooks', 'Webhook to row'])
      expect(text).toContain(`${what} ${period}`);
    expect(text).not.toContain(period === 'last hour' ? 'since start' : 'last hour');
  });
});

describe('what the page lets through', () => {
  it('puts the nonce on its one style and its one script, and has no inline handler or style attribute', () => {
    const page = renderStatusPage(richSnapshot(), 'abc123');
    expect(page.match(/<style nonce="abc123">/g)).toHaveLength(1);
    expect(page.match(/<script nonce="abc123">/g)).toHaveLength(1);
    expect(page.match(/<(style|script)\b/g)).toHaveLength(2);
    expect(page).not.toMatch(/<[^>]+\s(on\w+|style)=/);
    expect(page).not.toMatch(/(src|href)="https?:/);
  });

  it('escapes every naughty string, wherever a service can put it', () => {
    const strings = naughtyStrings();
    const plain = tagsOf(pageFull('x'));
    for (const text of strings) {
      const page = pageFull(text === '' ? 'x' : text);
      expect({ text, tags: tagsOf(page) }).toStrictEqual({ text, tags: plain });
      // Nothing that reorders or hides text is sent as it is.
      expect({ text, hidden: /[\p{Cf}\u2028\u2029]/u.test(page) }).toStrictEqual({ text, hidden: false });
    }
  });
});

/** A page with one text in all places that come from outside. */
function pageFull(text: string): string {
  const error = { code: text, message: text, hint: text };
  const resource = resourceWith(text, {
    owner: { name: text, since: NOW },
    runs: [runWith({ status: 'failed', error })],
    rejects: [{ reason: text, count: 1 }],
    suspects: { held: 1, held_since: NOW, held_why: text },
  });
  const schema = { changed_at: NOW, resource: text, table: text, column: text, from: text, to: text };
  const warehouse = { ...sourceWith('blog').warehouse, problem: error };
  const source = sourceWith('blog', { resources: [resource], schema_changes: [schema], warehouse, base_url: text });
  return renderStatusPage(snapshotWith({ sources: [source] }), NONCE);
}

/** The tags and the names of their attributes, without any value. */
function tagsOf(page: string): string[] {
  return [...page.matchAll(/<\/?[a-z][^>"]*(?:"[^"]*"[^>"]*)*>/gi)].map(([tag]) => tag.replace(/"[^"]*"/g, '""'));
}
