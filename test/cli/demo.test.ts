import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { beginCommand, startCommand, type Command } from '../support/command.ts';
import { IS_LONG, longOrShort } from '../support/length.ts';

/** The demo with a folder for temporary files of its own, so that what it leaves behind is seen. */
function startDemo(...options: string[]): Demo {
  return demoIn((folder) => startCommand(['demo', ...options], folder, { TMPDIR: folder }));
}

/** A process takes these rights from what it makes. */
const OWNER_ONLY = 0o077;

/** The same inside this process. */
function demoHere(...options: string[]): Demo {
  return demoIn((folder) => {
    vi.stubEnv('TMPDIR', folder);
    const umask = process.umask(OWNER_ONLY);
    onTestFinished(() => void process.umask(umask));
    return beginCommand(['demo', ...options], { cwd: folder });
  });
}

type Demo = Command & { left: () => string[] };

function demoIn(begin: (folder: string) => Command): Demo {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-demo-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return {
    ...begin(folder),
    left: () => readdirSync(folder).filter((name) => name.startsWith('content-sync')),
  };
}

/** A folder with a post, an image and its figures: the story is told sooner. */
function fewRecords(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'few-records-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const updated_at = '2026-11-20T08:00:00Z';
  const records = {
    content: {
      id: 'a',
      title: 'A post',
      status: 'draft',
      tags: ['x'],
      authors: [{ handle: 'h' }],
      word_count: 1,
      updated_at,
    },
    images: { id: 'i', url: 'https://example.com/i.png', updated_at },
    analytics: { id: 'v', content_id: 'a', date: '2026-11-20', views: 1, updated_at },
  };
  for (const [name, record] of Object.entries(records)) {
    writeFileSync(path.join(folder, `${name}.ndjson`), `${JSON.stringify(record)}\n`);
  }
  return folder;
}

/** Counts of what the demo copies first, and of what its sync finds changed. */
const COUNTS = longOrShort(
  { content: '2,000', images: '150', analytics: '20,000', changed: 3 },
  { content: '1', images: '1', analytics: '1', changed: 1 },
);

it('the demo tells its story in under a minute, ends by itself and leaves nothing behind', async () => {
  const began = performance.now();
  const demo = IS_LONG ? startDemo() : demoHere('--data', fewRecords());
  const { code, stdout, stderr } = await demo.ended;
  expect([code, stderr, demo.left()]).toEqual([0, '', []]);
  expect(performance.now() - began).toBeLessThan(60_000);
  for (const part of [
    /A content service listens on http:\/\/127\.0\.0\.1:\d+; it allows 40 requests\/s/,
    counting`Backfill: .*content +ok \(full\): ${COUNTS.content} new, .*images +ok \(full\): ${COUNTS.images} new, .*analytics +ok \(full\): ${COUNTS.analytics} new`,
    counting`Sync: .*content +ok \(incremental\): 1 new, ${COUNTS.changed} changed, `,
    /Which tags are read most\?.*What was changed, and what did it say before/s,
    /title_before +title_now\n.*revi/s,
    /Serve: its page is at http:\/\/127\.0\.0\.1:\d+\/, and the service reports changes to http.*\/webhooks\/demo\./,
    /a post was written +the row followed after +\d+ ms\n.*renamed.*deleted +the row followed/s,
    /What to do next, with your own service:\n.*init .*backfill .*serve /s,
  ]) {
    expect(stdout).toMatch(part);
  }
});

function counting({ raw }: TemplateStringsArray, ...counts: (string | number)[]): RegExp {
  return new RegExp(String.raw({ raw }, ...counts), 's');
}

it('the demo, interrupted, ends with 130 and leaves nothing behind', async () => {
  const demo = startDemo(...(IS_LONG ? [] : ['--data', fewRecords()]));
  await expect.poll(() => demo.left().length, { interval: 20, timeout: 30_000 }).toBe(1);
  demo.kill('SIGINT');
  const { code, stdout } = await demo.ended;
  expect([code, demo.left()]).toEqual([130, []]);
  expect(stdout).not.toContain('What to do next');
});

it('the demo that is kept goes on with its page until it is told to stop', async () => {
  const demo = demoHere('--keep', '--data', fewRecords());
  let url = '';
  const isThere = async (): Promise<number> => {
    url = /Still running: (\S+)/.exec(demo.said())?.[1] ?? '';
    return url === '' ? 0 : (await fetch(url)).status;
  };
  await expect.poll(isThere, { interval: 100, timeout: 60_000 }).toBe(200);
  demo.kill('SIGTERM');
  const { code, stderr } = await demo.ended;
  expect([code, stderr, demo.left()]).toEqual([0, '', []]);
});
