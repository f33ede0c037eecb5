import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { packagedProfiles, readPackagedProfile } from '../../src/config/load-profile.ts';
import type { Profile } from '../../src/config/profile/profile.ts';
import { load } from '../config/in-folder.ts';

const FOLDER = path.join(import.meta.dirname, '../../config/profiles');

/** What a profile advises in its comments, by the lines that are set in: YAML of a profile that extends it. */
function advised(name: string): string[] {
  const lines = readFileSync(path.join(FOLDER, `${name}.yaml`), 'utf8').split('\n');
  const blocks = [''];
  for (const line of lines) {
    const [, own] = /^# {3}(.*)$/.exec(line) ?? [];
    const last = blocks.length - 1;
    if (own !== undefined) blocks[last] = `${blocks[last]}${own}\n`;
    else if (blocks[last] !== '') blocks.push('');
  }
  return blocks.filter((block) => block !== '');
}

const SECRETS: Record<string, object> = {
  api_key: { key: 'a-key-of-some-length' },
  bearer: { token: 'a-token-of-some-length' },
  headers: { headers: { api_key: 'a-key-of-some-length', access_token: 'a-token-of-some-length' } },
  session: {},
};

function profileWith(name: string, block: string): Profile | undefined {
  const type = readPackagedProfile(name).auth?.[0]?.type ?? 'none';
  const source = { base_url: 'https://cms.example.com', auth: { type, ...SECRETS[type] }, profile: './own.yaml' };
  const settings = { warehouse: 'sqlite:./{source}.db', sources: { blog: source } };
  const files = { 'config.yaml': JSON.stringify(settings), 'own.yaml': `extends: ${name}\n${block}` };
  return load(files).sources['blog']?.profile;
}

const ADVICE = packagedProfiles()
  .filter((name) => readPackagedProfile(name).about?.tried === null)
  .flatMap((name) => advised(name).map((block) => ({ name, block })));

describe('what a profile advises to write', () => {
  it.for(ADVICE)('is a profile beside $name: $block', ({ name, block }) => {
    const { resources = {} } = parse(block);
    const profile = profileWith(name, block);
    expect(Object.keys(profile?.resources ?? {})).toEqual(expect.arrayContaining(Object.keys(resources)));
  });
});
