import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { umaskOf } from '../../src/config/settings.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import { config, faultAt, inFolder, load } from './in-folder.ts';

const END = 'log: { level: info }\n';
const KEY = 'key: canary-4711';
const ENV = { KEY: 'canary-4711', PGPASSWORD: 'canary-4711' };
const source = (key: string): string =>
  `base_url: https://cms.example.com\nprofile: content-service\nauth: { type: api_key, key: '${key}' }\n`;
const withMode = (mode: string): string => config({ [END]: `${END}file_mode: ${mode}\n` });

/** The files that are told of, where all have these rights. */
function exposedWith(mode: number, files: Record<string, string>): readonly string[] {
  return inFolder(files, (cwd) => {
    for (const name of Object.keys(files)) chmodSync(join(cwd, name), mode);
    return loadSettings({ path: 'config.yaml', env: ENV, cwd }).exposed;
  });
}

describe('the rights of files', () => {
  it.each([
    ['0600', 0o600, '077'],
    ["'0600'", 0o600, '077'],
    ['0640', 0o640, '027'],
    ["'0644'", 0o644, '022'],
  ])('%s are read as chmod reads them', (written, mode, umask) => {
    const { file_mode } = load({ 'config.yaml': withMode(written) });
    expect([file_mode, umaskOf(file_mode).toString(8).padStart(3, '0')]).toEqual([mode, umask]);
  });

  it('are those of the owner alone where nothing is said', () => {
    expect(load({ 'config.yaml': config() }).file_mode).toBe(0o600);
  });

  it.each(['0666', '0400', 'rw-r-----', '-640'])('%s is refused', (written) => {
    expect(faultAt(withMode(`‸${written}`), 'file_mode')).toMatch(/expected 0600, 0640 .* or 0644/);
  });

  it.each(['384.5', 'true', '[0640]'])('%s is refused', (written) => {
    expect(faultAt(withMode(`‸${written}`), 'file_mode')).toMatch(/expected .* got /);
  });
});

describe('a file of the settings that others may read', () => {
  const FOLDER = { 'config.yaml': 'warehouse: sqlite:{source}.db\nsources: ./sources\n' };
  const oauth = "auth: { type: oauth, client_id: abc, scope: read, client_secret: '${KEY}' }";
  const postgres = (address: string): Record<string, string> => ({
    [KEY]: "key: '${KEY}'",
    'sqlite:data/{source}.db': address,
  });

  it.each([
    ['a key', config(), true],
    [
      'a secret of webhooks',
      config({ [KEY]: "key: '${KEY}'", [END]: `serve: { auth: { user: a, password: b } }\n` }),
      true,
    ],
    ['a client and its scope', config({ 'auth: { type: api_key, key: canary-4711 }': oauth }), false],
    ['a password in the address', config(postgres('postgres://me:canary-4711@db/warehouse?sslmode=require')), true],
  ])('is told of, or not: %s', (_what, text, isTold) => {
    expect(exposedWith(0o644, { 'config.yaml': text })).toEqual(isTold ? ['config.yaml'] : []);
    expect(exposedWith(0o640, { 'config.yaml': text })).toEqual(isTold ? ['config.yaml'] : []);
    expect(exposedWith(0o600, { 'config.yaml': text })).toEqual([]);
  });

  it('is told of where it is the file of one source', () => {
    const files = { ...FOLDER, 'sources/a.yaml': source('canary-4711'), 'sources/b.yaml': source('${KEY}') };
    expect(exposedWith(0o644, files)).toEqual([join('sources', 'a.yaml')]);
    expect(exposedWith(0o600, files)).toEqual([]);
  });
});
