import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadSettings } from '../src/config/load-settings.ts';
import { codeBlocks, readPage } from './support/readme.ts';
import { tempFolder } from './support/temp-warehouse.ts';

const readme = readPage('config/README.md');
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
});
