import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { checkValue } from '../../../src/settings/file/check-value.ts';
import { pathKey } from '../../../src/settings/file/fault.ts';

const SCHEMA = z.strictObject({
  port: z.int().min(1).max(65_535).default(80),
  name: z.string().optional(),
  verbose: z.boolean().default(false),
  list: z.array(z.string()).min(1).optional(),
  auth: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.literal('api_key'), key: z.string() }),
      z.strictObject({ type: z.literal('oauth'), client_id: z.string() }),
    ])
    .optional(),
  sources: z.record(z.string().regex(/^[a-z_]+$/, 'expected a lower-case name'), z.strictObject({ url: z.string() })),
});

function check(value: object, filled: readonly (readonly string[])[] = []) {
  return checkValue(SCHEMA, { sources: {}, ...value }, new Set(filled.map(pathKey)));
}

describe('a fault', () => {
  it.each([
    [{ port: 'eighty' }, 'port', 'expected a number, got "eighty"'],
    [{ port: 0 }, 'port', 'expected at least 1, got 0'],
    [{ port: 70_000 }, 'port', 'expected at most 65535, got 70000'],
    [{ name: 12 }, 'name', 'expected a text, got 12 (put it in quotes)'],
    [{ name: null }, 'name', 'expected a text, got nothing (null)'],
    [{ list: [] }, 'list', 'expected at least 1 in the list, got an empty list'],
    [{ prot: 80 }, 'prot', /^expected one of port, name, .* got the unknown key "prot"$/],
    [{ auth: { type: 'api_key', keys: 'x', key: 'x' } }, 'auth.keys', /^expected one of type, key, .*"key"\?$/],
    [{ auth: { type: 'basic' } }, 'auth.type', /^expected .*api_key.*oauth.*, got "basic"$/],
    [{ sources: { BLOG: { url: 1 } } }, 'sources.BLOG', 'expected a lower-case name as key, got "BLOG"'],
  ])('in %j is explained', (value, field, message) => {
    const found = check(value).findings?.find(({ path }) => path.join('.') === field);
    expect(found?.message).toMatch(message);
  });

  it('below a key that is itself at fault is explained, too', () => {
    const paths = check({ sources: { BLOG: { url: 1 } } }).findings?.map(({ path }) => path.join('.'));
    expect(paths).toEqual(['sources.BLOG', 'sources.BLOG.url']);
  });

  it.each([
    [{ name: ['a'] }, [], 'a list'],
    [{ port: 'from outside' }, [['port']], 'a text (***)'],
    [{ sources: { blog: { url: 'https://user:pass@host/path?key=1', more: 1 } }, port: 'x'.repeat(99) }, [], '…'],
  ])('in %j shows no more of the value than it may', (value, filled, shown) => {
    const messages = check(value, filled).findings?.map(({ message }) => message) ?? [];
    expect(messages.join('\n')).toContain(shown);
    expect(messages.join('\n')).not.toMatch(/from outside|user:pass/);
  });
});

it('a text from the environment is read as the schema wants it', () => {
  const value = { port: '8080', verbose: 'true' };
  expect(check(value, [['port'], ['verbose']]).data).toMatchObject({ port: 8080, verbose: true });
  expect(check(value).findings).toHaveLength(2);
});

it('a fault in a chosen mode names all that there are, and not that it may be left out', () => {
  const modes = z.discriminatedUnion('mode', [
    z.strictObject({ mode: z.enum(['filter', 'newest_first']).default('filter') }),
    z.strictObject({ mode: z.literal('feed') }),
  ]);
  const { findings } = checkValue(z.strictObject({ incremental: modes }), { incremental: { mode: 'fed' } }, new Set());
  expect(findings).toMatchObject([{ message: 'expected one of filter, newest_first, feed, got "fed"' }]);
});
