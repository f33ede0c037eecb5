import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { probeCommand } from '../../src/cli/probe.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { startListing } from '../pagination/listing-server.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { runInProcess } from './in-process.ts';

const [USER, SECRET] = ['reader', 'key-7f3a99b1c2d4'];
const BEARER = `Bearer ${SECRET}`;
const BASIC = `Basic ${btoa(`${USER}:${SECRET}`)}`;
const ROWS = Array.from({ length: 23 }, (_, at) => {
  return { id: at + 1, title: `t${at}`, updated_at: new Date(Date.UTC(2026, 5, 20) + at * 3_700_000).toISOString() };
});

/** Posts and authors by page, for those who send this header. */
async function service(authorization: string, { hasFilter = true } = {}) {
  const answer = ({ pathname, searchParams: query }: URL, sent: string | undefined): [status: number, body: object] => {
    const [, , name = '', id] = pathname.split('/');
    const found = ROWS.find((row) => String(row.id) === id);
    if (sent !== authorization) return [401, { error: 'who are you?' }];
    if (!['posts', 'authors'].includes(name) || (id !== undefined && found === undefined)) return [404, {}];
    if (found !== undefined) return [200, { data: found }];
    const since = hasFilter ? query.get('updated_since') : null;
    const rows = ROWS.filter((row) => since === null || Date.parse(row.updated_at) >= Date.parse(since));
    const [size, page] = [Math.min(100, Number(query.get('limit') ?? 10)), Number(query.get('page') ?? 1)];
    return [200, { data: rows.slice((page - 1) * size, page * size), total: rows.length }];
  };
  const { url, requests } = await startListing((asked, _, head) => {
    const [status, body] = answer(asked, head?.headers.authorization);
    return { status, headers: { 'content-type': 'application/json' }, body };
  });
  return { url: `${url.origin}/api`, requests };
}
const ENV = { CMS_KEY: SECRET };

const probe = (args: readonly string[], cwd = tempFolder()) => runInProcess(probeCommand, args, cwd, { env: ENV });

describe('probe', () => {
  it('prints the profile with its evidence, and exits with 0 where every line was proved', async () => {
    const { url, requests } = await service(BEARER);
    const { code, stdout, stderr } = await probe([url, '--credential-env', 'CMS_KEY', '--requests', '150']);
    expect(stdout).toContain(
      'auth: { type: bearer } # Authorization: Bearer: 404 with the credential, 401 with a false one',
    );
    expect(stdout).toMatch(/param: updated_since # GET \/posts\?.*none earlier/);
    expect(stderr).toContain('sending requests to');
    expect(stderr).toContain('every line was verified');
    expect(code).toBe(0);
    expect(requests.length).toBeLessThanOrEqual(150);
    expect(stdout + stderr).not.toContain(SECRET);
  });

  it('exits with 3 where a line was not proved', async () => {
    const { url } = await service(BEARER, { hasFilter: false });
    const { code, stdout } = await probe([url, '--path', '/posts', '--credential-env', 'CMS_KEY']);
    expect(stdout).toMatch(/incremental: null # not proved: /);
    expect(code).toBe(3);
  });

  it('writes the file, and overwrites one only by force', async () => {
    const [{ url }, folder] = [await service(BEARER), tempFolder()];
    const args = [url, '--path', '/posts', '--credential-env', 'CMS_KEY', '--out', 'profile.yaml'];
    expect((await probe(args, folder)).stdout).toBe('');
    expect(readFileSync(path.join(folder, 'profile.yaml'), 'utf8')).toContain('path: /posts');
    writeFileSync(path.join(folder, 'profile.yaml'), 'mine');
    await expect(probe(args, folder)).rejects.toThrow('profile.yaml exists already');
    expect(readFileSync(path.join(folder, 'profile.yaml'), 'utf8')).toBe('mine');
    await probe([...args, '--force'], folder);
    expect(readFileSync(path.join(folder, 'profile.yaml'), 'utf8')).toContain('path: /posts');
  });

  it('takes a document of the API, and a name for basic authentication', async () => {
    const [{ url, requests }, folder] = [await service(BASIC), tempFolder()];
    const paths = { '/api/authors': { get: {} }, '/api/authors/{id}': { get: {} }, '/api/login': { get: {} } };
    writeFileSync(path.join(folder, 'api.json'), JSON.stringify({ openapi: '3.1.0', paths }));
    const given = [url, '--credential-env', 'CMS_KEY', '--user', USER, '--openapi', 'api.json'];
    const { stdout } = await probe(given, folder);
    expect(stdout).toContain('auth: { type: basic }');
    expect(stdout).toContain('from the OpenAPI document');
    expect(requests.some((asked) => asked.startsWith('/api/posts'))).toBe(false);
  });

  const REFUSED: Record<string, { args: string[]; message: string }> = {
    'no address': { args: ['ftp://cms.example.com'], message: 'expected an address' },
    'a credential in the address': { args: ['https://me:secret@cms.example.com'], message: 'user name or password' },
    'a password in the address': { args: ['https://:secret@cms.example.com'], message: 'user name or password' },
    'a variable that is not there': {
      args: ['https://cms.example.com', '--credential-env', 'NO'],
      message: 'no variable NO',
    },
    'an open line': {
      args: ['http://cms.example.com', '--credential-env', 'CMS_KEY'],
      message: 'sent unencrypted',
    },
    'a form that is none': {
      args: ['http://localhost:1', '--credential-env', 'CMS_KEY', '--auth', 'magic'],
      message: 'expected bearer',
    },
    'no number': { args: ['https://cms.example.com', '--requests', 'many'], message: 'must be a whole number from 5' },
    'a document that is not there': {
      args: ['https://cms.example.com', '--openapi', 'no.json'],
      message: 'no file no.json',
    },
    'a document of somebody else': {
      args: ['https://cms.example.com', '--openapi', 'https://docs.example.com/api.json'],
      message: 'is not at https://cms.example.com',
    },
    'a folder that is not there': {
      args: ['https://cms.example.com', '--out', 'no/such/file.yaml'],
      message: 'no folder',
    },
  };
  it.each(Object.entries(REFUSED))('refuses %s before any request', async (_, { args, message }) => {
    const refused = probe(args);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    expect(existsSync('profile.yaml')).toBe(false);
  });

  it('asks no more than it was allowed to', async () => {
    const { url, requests } = await service(BEARER);
    await probe([url, '--credential-env', 'CMS_KEY', '--requests', '15', '--path', '/posts']);
    expect(requests.length).toBeLessThanOrEqual(15);
  });
});
