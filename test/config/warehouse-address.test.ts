import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addressSecrets } from '../../src/config/warehouse-address.ts';
import { config, faultAt, faultsOf, load, type FaultRow } from './in-folder.ts';

const SQLITE = 'sqlite:data/{source}.db';
const withWarehouse = (address: string): string => config({ [SQLITE]: address });

/** Two sources of these names on this warehouse. */
function twoSources(address: string, ...names: readonly string[]): string {
  const fields = '{ base_url: https://x.example.com, auth: { type: api_key, key: k }, profile: content-service }';
  return `warehouse: ${address}\nsources:\n${names.map((name) => `  ${name}: ${fields}\n`).join('')}`;
}

function addressesOf(text: string, env: NodeJS.ProcessEnv = {}): (string | undefined)[] {
  return Object.values(load({ 'config.yaml': text }, env).sources).map(({ warehouse }) => warehouse);
}

describe('a Postgres warehouse', () => {
  it.each([
    [
      'postgres://app:pw@db.example.com:5432/content?sslmode=disable',
      'postgres://app:pw@db.example.com:5432/content?sslmode=disable&schema=blog',
    ],
    ['postgresql://localhost/content', 'postgres://localhost/content?schema=blog'],
    ['postgres://localhost/content?schema=public', 'postgres://localhost/content?schema=public'],
    ["'postgres://localhost/content?schema=cs_{source}'", 'postgres://localhost/content?schema=cs_blog'],
    [
      'postgres://u@x/c?host=/run/pg&application_name=cs',
      'postgres://u@x/c?host=%2Frun%2Fpg&application_name=cs&schema=blog',
    ],
    ['postgres://localhost/c?sslmode=require', 'postgres://localhost/c?sslmode=verify-full&schema=blog'],
    [
      'postgres://localhost/c?sslmode=require&uselibpqcompat=true',
      'postgres://localhost/c?sslmode=require&uselibpqcompat=true&schema=blog',
    ],
  ])('%s is understood', (given, expected) => {
    expect(addressesOf(withWarehouse(given))).toEqual([expected]);
  });

  it('comes from the environment too', () => {
    const env = { DATABASE_URL: 'postgres://app:canary-4711@localhost/content' };
    const settings = load({ 'config.yaml': withWarehouse("'${DATABASE_URL}'") }, env);
    expect(settings.sources['blog']?.warehouse).toBe('postgres://app:canary-4711@localhost/content?schema=blog');
    expect(settings.secrets).toContain('canary-4711');
  });

  it('has a schema per source, named as SQL takes it without quotes', () => {
    expect(addressesOf(twoSources('postgres://localhost/c', 'my-blog', 'shop'))).toEqual([
      'postgres://localhost/c?schema=my_blog',
      'postgres://localhost/c?schema=shop',
    ]);
  });

  it('keeps its password among the secrets in each form, and the whole address', () => {
    const address = 'postgres://app:pa%2Fss%20w%C3%B6rd@localhost/content?password=other%2Bone';
    const { secrets } = load({ 'config.yaml': withWarehouse(`'${address}'`) }, { PGPASSWORD: 'from-outside' });
    for (const form of ['pa%2Fss%20w%C3%B6rd', 'pa/ss wörd', 'other%2Bone', 'other+one', 'from-outside', address]) {
      expect(secrets).toContain(form);
    }
  });

  it('is no secret without a password, nor is the word postgres', () => {
    const plain = load({ 'config.yaml': withWarehouse('postgres://app@localhost/content') }).secrets;
    expect(plain.filter((secret) => secret.includes('db'))).toEqual([]);
    const { secrets } = load({ 'config.yaml': withWarehouse('postgres://postgres:postgres@localhost/content') });
    expect(secrets).not.toContain('postgres');
  });

  it('keeps them also where the address is none, without a word', () => {
    const secrets = addressSecrets('postgres://app:canary%4711@db:port/c', {});
    expect(secrets).toEqual(expect.arrayContaining(['canary%4711', 'postgres://app:canary%4711@db:port/c']));
    expect(addressSecrets('mysql://app:canary@localhost/c', {})).toEqual([]);
  });

  it('leaves SQLite as it was', () => {
    expect(addressesOf(withWarehouse('sqlite:/srv/{source}.db'))).toEqual([`sqlite:${join('/srv', 'blog.db')}`]);
  });
});

const row = (name: string, address: string, expected: RegExp): FaultRow => [
  name,
  withWarehouse(`‸'${address}'`),
  'warehouse',
  expected,
];

const rows: FaultRow[] = [
  row('another database', 'mysql://app:canary-4711@localhost/content', /postgres:\/\/user:password@.*got "mysql:/),
  row('no database', 'postgres://app:canary-4711@db', /one database, got "postgres:\/\/\*\*\*@db"/),
  row(
    'a slash in the password',
    'postgres://app:canary-4711/x@localhost/content',
    /percent-encoded.*got "postgres:\*\*\*"/,
  ),
  row('a # in the password', 'postgres://app:12#canary-4711@localhost/content', /percent-encoded/),
  row('a password without an @', 'postgres://app:canary-4711', /percent-encoded.*got "postgres:\*\*\*"/),
  row('an unknown parameter', 'postgres://app:canary-4711@localhost/c?sslmod=disable', /only the parameters .*sslmode/),
  row('an unknown sslmode', 'postgres://app:canary-4711@localhost/c?sslmode=on', /sslmode as one of disable/),
  row(
    'a certificate that is not there',
    'postgres://localhost/c?sslrootcert=/nowhere/ca.pem',
    /readable file in sslrootcert/,
  ),
  row('the source in the name of the database', 'postgres://localhost/{source}', /\{source\} only in \?schema=/),
  row('a schema of Postgres', 'postgres://localhost/c?schema=pg_catalog', /other than those of Postgres/),
  row('our own schema', 'postgres://localhost/c?schema=content_sync', /of content-sync itself/),
  [
    'one schema for two sources',
    twoSources('‸postgres://localhost/c?schema=copies', 'blog', 'shop'),
    'warehouse',
    /\{source\} in the schema, because each of several sources/,
  ],
  [
    'two names that lead to one schema',
    twoSources('postgres://localhost/c', 'my_blog', '‸my-blog'),
    'sources.my-blog',
    /another name, because my_blog has the schema my_blog too/,
  ],
  [
    'a source that would come to lie among our own',
    twoSources('postgres://localhost/c', '‸content-sync-boss'),
    'sources.content-sync-boss',
    /the schema content_sync_boss is not/,
  ],
  [
    'a schema that Postgres would cut',
    twoSources(`'postgres://localhost/c?schema=${'x'.repeat(60)}_{source}'`, '‸blog'),
    'sources.blog',
    /at most 63 characters/,
  ],
];

describe('F155 an address that cannot be used is refused with its place, without its password', () => {
  it.each(rows)('%s', (_name, text, field, expected) => {
    expect(faultAt(text, field)).toMatch(expected);
  });

  it('also where it comes from the environment, and nothing of it is shown', () => {
    const env = { DATABASE_URL: 'postgres://app:canary-4711@db' };
    const { message } = faultsOf({ 'config.yaml': withWarehouse("'${DATABASE_URL}'") }, env);
    expect(message).toMatch(/config\.yaml:1:12 {2}warehouse: expected .*got a text \(\*\*\*\)/);
    expect(message).not.toContain('canary');
  });
});
