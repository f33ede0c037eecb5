import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { backfillCommand } from '../../src/cli/sync.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { beginCommand, runCommand } from '../support/command.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const SMALL = { sandbox: { generate: { content: 2, images: 1, analytics: 1 } } };

/** The source of a journey in a folder with two more that cannot be used. */
async function threeFiles(): Promise<Journey> {
  const blog = await journey(SMALL);
  mkdirSync(path.join(blog.folder, 'sources'));
  const write = (file: string, content: object): void =>
    writeFileSync(path.join(blog.folder, file), JSON.stringify(content));
  const good = {
    base_url: blog.sandbox.url,
    auth: { type: 'api_key', key: blog.sandbox.apiKey },
    profile: '../profile.yaml',
  };
  write('sources/good.yaml', good);
  write('sources/bad.yaml', { ...good, max_wait: 'soon' });
  write('sources/worse.yaml', { ...good, profile: 'content-servise' });
  write('many.yaml', { warehouse: 'sqlite:{source}.db', sources: './sources' });
  return blog;
}

describe('a folder of sources', () => {
  it('F155 runs the good ones, tells of each bad one first, and ends with 2', async () => {
    const blog = await threeFiles();
    const { code, stdout, stderr } = await runCommand(['backfill', '--json', '-c', 'many.yaml'], blog.folder);
    expect(code).toBe(2);
    const fault = '"error":{"code":"settings_invalid","message":"sources';
    expect(stderr).toMatch(new RegExp(`"source":"bad",${fault}/bad\\.yaml:1:\\d+ {2}max_wait: expected`));
    expect(stderr).toMatch(new RegExp(`"source":"worse",${fault}/worse\\.yaml:1:\\d+ {2}profile: .*content-service`));
    expect(JSON.parse(stdout)).toMatchObject({ source: 'good', status: 'ok' });
  });

  it('asks nothing of a bad one that is named, and cares for no other where a good one is', async () => {
    const blog = await threeFiles();
    const run = (command: typeof backfillCommand, source: string) =>
      runInProcess(command, ['-c', 'many.yaml', '--source', source], blog.folder);
    expect(await run(backfillCommand, 'good')).toMatchObject({ code: 0 });
    expect(await run(statusCommand, 'good')).toMatchObject({ code: 0, stdout: expect.stringContaining('content') });
    const message = expect.stringMatching(/^sources\/bad\.yaml:1:\d+ {2}max_wait/);
    await expect(run(backfillCommand, 'bad')).rejects.toMatchObject({ code: 'settings_invalid', message });
    await expect(run(backfillCommand, 'nobody')).rejects.toMatchObject({ code: 'usage' });
  });

  it('is served as far as it is good, with the bad ones on the page', async () => {
    const blog = await threeFiles();
    const serving = beginCommand(['serve', '-c', 'many.yaml', '--port', '0'], { cwd: blog.folder });
    onTestFinished(async () => {
      serving.kill('SIGTERM');
      await serving.ended;
    });
    const url = await vi.waitUntil(() => /"url":"(http:[^"]+)"/.exec(serving.logged())?.[1], { timeout: 30_000 });
    expect(serving.logged()).toMatch(/content-sync: bad: sources\/bad\.yaml:1:\d+ {2}max_wait: expected/);
    const status: unknown = await (await fetch(`${url}/status.json`)).json();
    const message = expect.stringContaining('max_wait: expected');
    expect(status).toMatchObject({
      sources: [{ source: 'good' }],
      refused: [{ source: 'bad', problem: { code: 'settings_invalid', message } }, { source: 'worse' }],
    });
    expect(await (await fetch(url)).text()).toContain('It is left out, because its settings cannot be used');
    serving.kill('SIGTERM');
    expect(await serving.ended).toMatchObject({ signal: null });
  });
});
