import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand, type Ended } from '../support/command.ts';
import { journey } from '../support/journey.ts';

const RECORDS = { content: 120, images: 30, analytics: 210 };
const REPORT_KEYS = ['source', 'run_id', 'status', 'resources'];
const RESOURCE_KEYS = [
  'resource', 'mode', 'status', 'pages', 'requests', 'records', 'inserted', 'updated', 'unchanged', 'rejected',
  'deleted', 'held', 'retries', 'limited', 'bytes', 'seconds',
]; // prettier-ignore

/** The one object on stdout; anything else there is a failure. */
function reportOf({ stdout }: Ended) {
  expect(stdout).toMatch(/^\{.*\}\n$/);
  return JSON.parse(stdout);
}

const statusesOf = (ended: Ended): string[] =>
  reportOf(ended).resources.map(({ status }: { status: string }) => status);

describe('--json', () => {
  it('prints one object of the promised shape on stdout, and nothing but JSON lines on stderr', async () => {
    const blog = await journey({ sandbox: { generate: RECORDS } });
    const ended = await blog.command('backfill', '--json', '--log-level', 'debug');
    expect(ended.code).toBe(0);
    const report = reportOf(ended);
    expect(Object.keys(report)).toEqual(REPORT_KEYS);
    expect(report).toMatchObject({ source: 'blog', status: 'ok', run_id: expect.stringMatching(/^\d{8}T\d{6}Z-\w+$/) });
    for (const resource of report.resources) expect(Object.keys(resource)).toEqual(RESOURCE_KEYS);
    expect(report.resources).toMatchObject([
      { resource: 'content', mode: 'full', status: 'ok', pages: 2, records: 120, inserted: 120, updated: 0 },
      { resource: 'images', pages: 1, requests: 2, records: 30, inserted: 30, unchanged: 0, rejected: 0 },
      { resource: 'analytics', pages: 3, records: 210, inserted: 210, retries: 0, limited: 0 },
    ]);
    const lines = ended.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) expect(line).toMatchObject({ level: expect.any(String), time: expect.any(String) });
    expect(lines.map(({ msg }) => msg)).toContain('scan ok');
  });
});

describe('exit codes', () => {
  it('3 where one resource fails: the others are complete, and the error says what to do', async () => {
    const fault = { fault: 'status', status: 403, resource: 'images' } as const;
    const blog = await journey({ sandbox: { generate: RECORDS, fault: [fault] } });
    const ended = await blog.command('backfill', '--json');
    expect([ended.code, reportOf(ended).status]).toEqual([3, 'partial']);
    expect(statusesOf(ended)).toEqual(['ok', 'failed', 'ok']);
    const error = { code: 'forbidden', message: expect.stringContaining('answered 403'), hint: expect.any(String) };
    expect(reportOf(ended).resources[1].error).toEqual(error);
    expect(await blog.read((db) => db.prepare('SELECT count(*) FROM analytics').pluck().get())).toBe(210);
  });

  it('3 where a record is set aside', async () => {
    const blog = await journey({ sandbox: { generate: { ...RECORDS, images: 0 } } });
    blog.sandbox.faults.add({
      fault: 'field',
      name: 'data',
      value: '[{"id":{"no":"id"}},{"id":"img_1"}]',
      resource: 'images',
    });
    const ended = await blog.command('backfill', '--json');
    expect([ended.code, statusesOf(ended)]).toEqual([3, ['ok', 'partial', 'ok']]);
    expect(reportOf(ended).resources[1]).toMatchObject({ records: 2, inserted: 1, rejected: 1 });
    expect((await blog.command('status')).stdout).toMatch(/images +1 .* partial +1 /);
  });

  it('4 where the service asks for an hour, and then nothing is sent before the hour is over', async () => {
    const fault = { fault: 'status', status: 429, 'retry-after': '3600' } as const;
    const blog = await journey({ sandbox: { generate: RECORDS, fault: [fault] } });
    const first = await blog.command('sync', '--json');
    expect([first.code, statusesOf(first)]).toEqual([4, ['deferred', 'deferred', 'deferred']]);
    const asked = blog.sandbox.requests.total;
    expect(asked).toBeGreaterThan(0);
    blog.sandbox.faults.clear();
    const second = await blog.command('sync', '--json');
    expect([second.code, statusesOf(second)]).toEqual([4, ['deferred', 'deferred', 'deferred']]);
    expect(blog.sandbox.requests.total).toBe(asked);
    expect((await blog.command('status')).stdout).toMatch(/content: the service requested a wait until 2\d{3}-/);
  });

  it('130 on SIGTERM in the middle of a walk, with the report of what was done', async () => {
    const blog = await journey({ sandbox: { generate: RECORDS, latency: 300 } });
    const command = blog.start('backfill', '--json');
    await expect.poll(() => blog.sandbox.requests.total, { interval: 5, timeout: 20_000 }).toBeGreaterThan(3);
    command.kill('SIGTERM');
    const ended = await command.ended;
    expect([ended.code, ended.signal, reportOf(ended).status]).toEqual([130, null, 'interrupted']);
  });
});

describe('several sources', () => {
  it('are worked on one after the other: one that cannot be opened is told and takes no other along', async () => {
    const blog = await journey({ sandbox: { generate: RECORDS } });
    const source = {
      base_url: blog.sandbox.url,
      auth: { type: 'api_key', key: blog.sandbox.apiKey },
      profile: 'content-service',
    };
    const sources = { blocked: source, shop: source };
    writeFileSync(path.join(blog.folder, 'two.yaml'), JSON.stringify({ warehouse: 'sqlite:{source}.db', sources }));
    writeFileSync(path.join(blog.folder, 'blocked.db'), 'This is no database, and it is left alone.'.repeat(20));
    const ended = await runCommand(['sync', '--json', '-c', 'two.yaml'], blog.folder);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(/"source":"blocked","error":{"code":"warehouse_corrupt","message":".*blocked\.db/);
    expect(reportOf(ended)).toMatchObject({ source: 'shop', status: 'ok' });
    const both = await runCommand(['sync', '--json', '-c', 'two.yaml', '-s', 'shop'], blog.folder);
    expect(both.code).toBe(0);
  });
});

describe('content-sync status', () => {
  it('tells how each resource stands before and after, and asks the service nothing', async () => {
    const blog = await journey({ sandbox: { generate: RECORDS } });
    await (await blog.open()).close();
    const before = await blog.command('status');
    expect(before).toMatchObject({ code: 0, stderr: '' });
    expect(before.stdout).toMatch(/resource +rows +deleted +last success \(UTC\) +lag +last run +rejected +cursor\n/);
    expect(before.stdout).toMatch(/content +0 +0 +never +– +none +0 +–\n/);
    expect(blog.sandbox.requests.total).toBe(0);
    await blog.command('backfill');
    const asked = blog.sandbox.requests.total;
    const after = await blog.command('status');
    expect(after.stdout).toMatch(/analytics +210 +0 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+s +ok +0 +\d{4}-/);
    const { resources } = reportOf(await blog.command('status', '--json'));
    expect(blog.sandbox.requests.total).toBe(asked);
    expect(resources[0]).toEqual({
      resource: 'content',
      rows: 120,
      deleted: 0,
      held: 0,
      last_success: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/),
      lag_seconds: expect.any(Number),
      last_run: 'ok',
      cursor: expect.any(String),
      rejects: 0,
      unfinished: null,
      due: null,
      paused: null,
      error: null,
    });
  });
});
