import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadSettings } from '../src/config/load-settings.ts';
import { journey } from './support/journey.ts';
import { codeBlocks, PAGES, readPage } from './support/readme.ts';
import { tempFolder } from './support/temp-warehouse.ts';

const readme = readPage();

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

const VALUE = 'a-secret-from-the-environment';
const ENV = {
  CONTENT_API_KEY: VALUE,
  CONTENT_HASH_KEY: VALUE,
  CONTENT_PASSWORD: VALUE,
  CONTENT_WEBHOOK_SECRET: `whsec_${Buffer.alloc(24).toString('base64')}`,
  DATABASE_URL: 'postgres://content@db.example.com/warehouse?sslmode=verify-full',
};

/** Loads a config that names `./my-service.yaml`, or a profile of `content-sync`. */
function load(folder: string, config: string): ReturnType<typeof loadSettings> {
  writeFileSync(path.join(folder, 'config.yaml'), config);
  return loadSettings({ path: 'config.yaml', env: ENV, cwd: folder });
}

describe('what the docs say to type', () => {
  it.each(PAGES)('the configs and profiles in %s load', (page) => {
    const folder = tempFolder();
    const blocks = codeBlocks(readPage(page).text, 'yaml');
    for (const block of blocks) for (const document of parseAllDocuments(block)) expect(document.errors).toEqual([]);
    const configs = blocks.filter((block) => /^sources:\n/m.test(block));
    const own = configs.filter((config) => config.includes('./my-service.yaml'));
    for (const profile of blocks.filter((block) => /^resources:/m.test(block))) {
      writeFileSync(path.join(folder, 'my-service.yaml'), profile);
      const config = own.at(-1) ?? sourceFor(profile);
      expect([profile, load(folder, config).refused]).toEqual([profile, []]);
    }
    for (const config of configs) expect([config, load(folder, config).refused]).toEqual([config, []]);
  });

  it('a profile contains only the differences', () => {
    const folder = tempFolder();
    const [profile = ''] = codeBlocks(readPage('config/profile.md').section('Write a profile'), 'yaml');
    writeFileSync(path.join(folder, 'my-service.yaml'), profile);
    const { blog } = load(folder, sourceFor(profile)).sources;
    expect(blog?.resources).toEqual(['content', 'images', 'authors']);
    expect(blog?.profile.resources['authors']).toMatchObject({ history: 'all', id: 'id', records: 'data' });
  });

  it('sources in a folder load, and share a Postgres', () => {
    const folder = tempFolder();
    const [source = ''] = codeBlocks(readPage('config/settings.md').section('Many sources'), 'yaml');
    const [address = ''] = codeBlocks(readPage('config/postgres.md').section('Set up'), 'yaml');
    mkdirSync(path.join(folder, 'sources'));
    writeFileSync(path.join(folder, 'sources', 'blog.yaml'), source);
    const { sources } = load(folder, `${address}sources: ./sources\n`);
    expect(sources['blog']?.warehouse).toBe(`${ENV.DATABASE_URL}&schema=blog`);
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
    const questions = codeBlocks(readme.section('Ask the copy'), 'sql');
    const counts = await blog.read((db) => questions.map((text) => db.prepare(text).all().length));
    expect(counts).toEqual([10, expect.any(Number)]);
    expect(counts[1]).toBeGreaterThan(1);
  });

  it('the report is one that a run prints', async () => {
    const blog = await journey({ sandbox: { generate: { content: 1, images: 0, analytics: 0 } } });
    const shown = codeBlocks(readPage('config/operations.md').section('Logs and reports'), 'json').find((block) =>
      block.includes('"run_id"'),
    );
    const example = JSON.parse(shown ?? '');
    const printed = JSON.parse((await blog.start('sync', '--json').ended).stdout);
    expect(Object.keys(example)).toEqual(Object.keys(printed));
    expect(Object.keys(example.resources[0])).toEqual(Object.keys(printed.resources[0]));
  });
});
