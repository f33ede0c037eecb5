import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadSettings } from '../src/settings/load-settings.ts';
import { asOtherClient, POSTGRES, postgresDatabase } from './support/databases.ts';
import { journey } from './support/journey.ts';
import { codeBlocks, readReadme } from './support/readme.ts';
import { tempFolder } from './support/temp-warehouse.ts';

const readme = readReadme('config/README.md');
const tables = readReadme('migrations/README.md');
const env = {
  CONTENT_API_KEY: 'a-key',
  DATABASE_URL: 'postgres://content@db.example.com/warehouse?sslmode=verify-full',
};

describe('what the READMEs say of Postgres', () => {
  it('the config loads, in one file and in several', () => {
    const [whole = ''] = codeBlocks(readme.section('Many machines'), 'yaml');
    const [place = ''] = codeBlocks(readme.section('On Postgres'), 'yaml');
    const [source = ''] = codeBlocks(readme.section('Many sources'), 'yaml');
    const folder = tempFolder();
    mkdirSync(path.join(folder, 'sources'));
    writeFileSync(path.join(folder, 'sources', 'blog.yaml'), source);
    writeFileSync(path.join(folder, 'one.yaml'), whole);
    writeFileSync(path.join(folder, 'several.yaml'), `${place}sources: ./sources\n`);
    for (const file of ['one.yaml', 'several.yaml']) {
      const { sources, refused } = loadSettings({ path: file, env, cwd: folder });
      expect(refused).toEqual([]);
      expect(sources['blog']?.warehouse).toBe(`${env.DATABASE_URL}&schema=blog`);
    }
  });

  it.runIf(POSTGRES.missing === null)('the questions have answers', async () => {
    const sandbox = { generate: { content: 60, images: 5, analytics: 120 } };
    // The schema is named as in the README.
    const database = { ...POSTGRES, setting: postgresDatabase };
    const blog = await journey({ database, sandbox });
    await blog.run('backfill');
    const [first] = blog.sandbox.store.list('content');
    const changed = { ...JSON.parse(first?.text ?? ''), title: 'Renamed', updated_at: new Date().toISOString() };
    blog.sandbox.store.put('content', changed);
    await blog.run('sync');
    const questions = codeBlocks(tables.section('Questions on Postgres'), 'sql');
    const counts = await asOtherClient(blog.address.replace(/\?.*/, ''), async (client) => {
      const answers: (number | null)[] = [];
      for (const text of questions) answers.push((await client.query(text)).rowCount);
      return answers;
    });
    expect(counts).toEqual([expect.any(Number), 1, 3]);
    expect(counts[0]).toBeGreaterThan(0);
  });
});
