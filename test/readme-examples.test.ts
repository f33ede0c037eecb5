import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadSettings } from '../src/config/load-settings.ts';
import { journey } from './support/journey.ts';
import { PAGES, codeBlocks, readPage } from './support/readme.ts';

const MAIN = path.join(import.meta.dirname, '..', 'src/main.ts');
const readme = readPage();
const reference = readPage('config/README.md');
const sandbox = readPage('src/sandbox/README.md');

/** A source with secrets for the scheme that a profile has. */
function sourceFor(profile: string): string {
  const secrets = Object.entries(SECRETS).find(([type]) => profile.includes(`type: ${type}`))?.[1];
  const auth = JSON.stringify(secrets ?? { type: 'none' });
  return `warehouse: sqlite:data/{source}.db
sources:
  blog: { base_url: 'https://cms.example.com', auth: ${auth}, profile: ./my-service.yaml }
`;
}

const SECRETS = {
  api_key: { type: 'api_key', key: 'a-key' },
  bearer: { type: 'bearer', token: 'a-token' },
};

describe('what the READMEs say to type', () => {
  it('a config and a profile load without a fault', async () => {
    const { folder } = await journey();
    const [smallest = ''] = codeBlocks(readme.section('By hand'), 'yaml');
    const [profile = ''] = codeBlocks(reference.section('A profile for another service'), 'yaml');
    writeFileSync(path.join(folder, 'my-service.yaml'), profile);
    writeFileSync(path.join(folder, 'first.yaml'), smallest);
    writeFileSync(
      path.join(folder, 'second.yaml'),
      smallest.replace('profile: content-service', 'profile: ./my-service.yaml'),
    );
    const env = { CONTENT_API_KEY: 'a-key-from-the-environment' };
    expect(loadSettings({ path: 'first.yaml', env, cwd: folder }).sources['blog']?.resources).toEqual([
      'content',
      'images',
      'analytics',
    ]);
    const { blog } = loadSettings({ path: 'second.yaml', env, cwd: folder }).sources;
    expect(blog?.resources).toEqual(['content', 'images', 'authors']);
    expect(blog?.profile.resources['authors']).toMatchObject({
      path: '/authors',
      history: 'all',
      id: 'id',
      records: 'data',
    });
    for (const block of PAGES.flatMap((file) => codeBlocks(readPage(file).text, 'yaml'))) {
      for (const document of parseAllDocuments(block)) expect(document.errors).toEqual([]);
    }
  });

  it('each subject of the profile has an example that loads', async () => {
    const { folder } = await journey();
    const value = 'a-secret-from-the-environment';
    const env = { CONTENT_PASSWORD: value, CONTENT_API_KEY: value, CONTENT_HASH_KEY: value };
    const subjects = [...reference.section('The profile').matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading);
    expect(subjects.length).toBeGreaterThan(8);
    for (const subject of subjects) {
      const blocks = codeBlocks(reference.section(subject), 'yaml');
      const profiles = blocks.filter((block) => !block.startsWith('warehouse:'));
      const configs = blocks.filter((block) => block.startsWith('warehouse:'));
      expect([subject, profiles.length > 0]).toEqual([subject, true]);
      for (const profile of profiles) {
        writeFileSync(path.join(folder, 'my-service.yaml'), profile);
        for (const config of [sourceFor(profile), ...configs].slice(-1)) {
          writeFileSync(path.join(folder, 'subject.yaml'), config);
          const { sources } = loadSettings({ path: 'subject.yaml', env, cwd: folder });
          expect([subject, sources['blog']?.resources.length]).not.toEqual([subject, 0]);
        }
      }
    }
  });

  it('the questions have answers', async () => {
    const blog = await journey({ sandbox: { generate: { content: 60, images: 5, analytics: 120 } } });
    await blog.run('backfill');
    const [first] = blog.sandbox.store.list('content');
    blog.sandbox.store.put('content', {
      ...JSON.parse(first?.text ?? ''),
      title: 'Renamed',
      updated_at: new Date().toISOString(),
    });
    await blog.run('sync');
    const questions = codeBlocks(readme.section('Questions'), 'sql');
    const counts = await blog.read((db) =>
      questions.map((text) => db.prepare(text.replaceAll('2026-11-20 08:00:00', '2999-01-01 00:00:00')).all().length),
    );
    const [, months, edits] = counts;
    expect(counts).toEqual([10, months, edits, 60, 0]);
    expect([months, edits].map((count) => (count ?? 0) > 1)).toEqual([true, true]);
  });

  it('the report is one that a run prints', async () => {
    const blog = await journey({ sandbox: { generate: { content: 1, images: 0, analytics: 0 } } });
    const shown = codeBlocks(reference.section('Output'), 'json').find((block) => block.includes('"run_id"'));
    const example = JSON.parse(shown ?? '');
    const printed = JSON.parse((await blog.start('sync', '--json').ended).stdout);
    expect(Object.keys(example)).toEqual(Object.keys(printed));
    expect(Object.keys(example.resources[0])).toEqual(Object.keys(printed.resources[0]));
  });

  it('the sandbox line starts one', async () => {
    const [line = ''] = codeBlocks(sandbox.section('The sandbox'), 'sh');
    const args = line.trim().split(' -- ')[1]?.replace('--port 8080', '--port 0').split(' ') ?? [];
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [stdout] = await once(child.stdout, 'data');
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([0, null]);
    const [, example = ''] = /`(\{"url".*?\})`/.exec(sandbox.section('The sandbox')) ?? [];
    expect(Object.keys(JSON.parse(example))).toEqual(Object.keys(JSON.parse(String(stdout))));
  });
});
