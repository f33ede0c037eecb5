import { globSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { databaseAt, sharedDatabase } from '../../src/database/databases.ts';

const root = path.join(import.meta.dirname, '../..');
const warehouse = path.join(root, 'src/database');

/** Source text without its comments. */
function codeOf(file: string): string {
  const text = readFileSync(path.join(root, file), 'utf8');
  return text.replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** What tells one kind of database from another: a kind or a scheme as a text, a name in code, or a kind's folder. */
const NAMES_A_KIND =
  /['"`](?:sqlite|postgres(?:ql)?)(?:['"`]|:(?!\/\/host))|\b(?:sqlite|postgres)[A-Z]|[a-z](?:Sqlite|Postgres)|\/(?:sqlite|postgres)\//g;

/** The grammar of the addresses, the config that the demo writes, and the explanations of error codes. */
const MAY_NAME_KINDS = /^src\/(?:database\/|config\/warehouse-address\.ts|cli\/(?:demo|error-explanations)\.ts)/;

describe('the kinds of database', () => {
  it('are named in the warehouse alone, and in the grammar of its addresses', () => {
    const files = globSync('src/**/*.ts', { cwd: root }).filter((file) => !MAY_NAME_KINDS.test(file));
    expect(files.length).toBeGreaterThan(100);
    const named = files.flatMap((file) => [...codeOf(file).matchAll(NAMES_A_KIND)].map(([text]) => `${file}: ${text}`));
    expect(named).toEqual([]);
  });

  it('are in the warehouse named by one table, and by what copies from one to the other', () => {
    const outside = readdirSync(warehouse, { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && !/^(?:sqlite|postgres|copy)\//.test(file),
    );
    const naming = outside.filter((file) => codeOf(`src/database/${file}`).search(NAMES_A_KIND) >= 0);
    expect(naming).toEqual(['databases.ts']);
  });
});

describe('a database at an address', () => {
  it('is a file with an inbox file beside it, which one process works on', () => {
    const database = databaseAt('sqlite:/srv/blog.db');
    expect(database).toMatchObject({ shown: 'sqlite:/srv/blog.db', file: '/srv/blog.db', shared: null });
    expect(database.inbox).toBe('sqlite:/srv/blog-inbox.db');
  });

  it('is a server that processes share, whose password is not shown', () => {
    const address = 'postgresql://app:canary-4711@db:5433/content?sslmode=disable&schema=blog';
    const { shown, file, shared } = databaseAt(address);
    expect({ shown, file }).toEqual({ shown: 'postgres://db:5433/content?schema=blog', file: null });
    expect(shared?.namespace).toBe('blog');
    expect(shared?.id).not.toContain('canary');
    expect(shared?.id).toBe(sharedDatabase(address.replace('schema=blog', 'schema=shop'))?.id);
    expect(shared?.id).not.toBe(sharedDatabase(address.replace('/content', '/other'))?.id);
  });
});
