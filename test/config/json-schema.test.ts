import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { configJsonSchema, profileJsonSchema } from '../support/json-schemas.ts';
import { packageRoot } from '../../src/config/load-profile.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import { config } from './in-folder.ts';

const folder = join(packageRoot(), 'config');
const textOf = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8');

// After a change of a schema: npm run docs.
describe('the schemas for editors', () => {
  it('config/content-sync.schema.json is what the program checks', () => {
    expect(JSON.parse(textOf('content-sync.schema.json'))).toEqual(JSON.parse(JSON.stringify(configJsonSchema())));
  });

  it('config/profile.schema.json is what the program checks', () => {
    expect(JSON.parse(textOf('profile.schema.json'))).toEqual(JSON.parse(JSON.stringify(profileJsonSchema())));
  });

  it('do not require what has a default, and refuse unknown keys', () => {
    const schema = z.fromJSONSchema(configJsonSchema());
    expect(schema.safeParse(parse(config())).success).toBe(true);
    expect(schema.safeParse(parse(config({ '    max_wait: 15m\n': '', 'log: { level: info }\n': '' }))).success).toBe(
      true,
    );
    expect(schema.safeParse(parse(config({ share: 'shar' }))).success).toBe(false);
  });

  const ofProfiles = z.fromJSONSchema(profileJsonSchema());
  it.each(readdirSync(join(folder, 'profiles')))('accept the profile %s', (file) => {
    expect(ofProfiles.safeParse(parse(textOf('profiles', file))).error).toBeUndefined();
  });
});

describe('the example config', () => {
  const env = { CONTENT_API_KEY: 'from-the-environment' };

  it('loads as it is, with nothing but the key in the environment', () => {
    const settings = loadSettings({ path: join(folder, 'content-sync.example.yaml'), env, cwd: folder });
    expect(settings.sources['blog']?.auth).toEqual({ type: 'api_key', key: 'from-the-environment' });
  });

  it('fits its schema', () => {
    const schema = z.fromJSONSchema(configJsonSchema());
    expect(schema.safeParse(parse(textOf('content-sync.example.yaml'))).error).toBeUndefined();
  });
});

describe('every field of the profiles for the service of the specification', () => {
  const files = readdirSync(join(folder, 'profiles')).filter((file) => file.startsWith('content-service'));
  it.each(files)('%s says what it rests on', (file) => {
    const fields = textOf('profiles', file)
      .split('\n')
      .filter((line) => /^ *[\w-]+:/i.test(line));
    const bare = fields.filter((line) => !/ # (shown: §\d|assumed: .)/.test(line));
    // What a variant takes over or only opens is not a claim of its own.
    expect(
      bare.filter(
        (line) => !/^(about|extends|resources|\s+(title|tried|content|images|analytics)):|page: \*page/.test(line),
      ),
    ).toEqual([]);
    expect(fields.length).toBeGreaterThan(5);
  });
});
