import { describe, expect, it } from 'vitest';
import { escapePlaceholders, interpolate } from '../../../src/config/file/interpolate.ts';
import { pathKey } from '../../../src/config/file/yaml-file.ts';

const readSecret = (path: string): string => {
  if (path === '/run/secrets/key') return 's3cret';
  throw new Error(`expected a readable file ${path}, got none`);
};
const fill = (value: unknown) => interpolate(value, { env: { NAME: 'blog', EMPTY: '' }, readSecret });

describe('a placeholder', () => {
  it.each([
    ['${NAME}', 'blog'],
    ['a-${NAME}-${NAME}', 'a-blog-blog'],
    ['${UNSET:-other}', 'other'],
    ['${EMPTY:-other}', 'other'],
    ['${UNSET:-}', ''],
    ['${file:/run/secrets/key}', 's3cret'],
    ['$${NAME}', '${NAME}'],
    ['no placeholder: $NAME', 'no placeholder: $NAME'],
  ])('%s becomes %s', (text, expected) => {
    expect(fill({ field: text })).toMatchObject({ value: { field: expected }, findings: [] });
  });

  it.each([
    ['${UNSET}', /the environment variable UNSET, got nothing \(it is not set.*\$\{UNSET:-default\}/],
    ['${EMPTY}', /the environment variable EMPTY, got nothing \(it is empty/],
    ['${NAME', /expected a \} after/],
    ['${no name}', /expected \$\{VAR\}/],
    ['${file:/nowhere}', /expected a readable file \/nowhere/],
  ])('%s is reported', (text, message) => {
    const { findings } = fill({ list: ['x', text] });
    expect(findings).toEqual([{ path: ['list', 1], part: 'value', message: expect.stringMatching(message) }]);
  });
});

it.each(['${NAME}', '$${NAME}', '$$${NAME}', '${', '$', '${file:/run/secrets/key}', '$${$${NAME}'])(
  'escaped, %s stays as it is',
  (text) => {
    const value = { list: [text, 1, null, { key: text }] };
    expect(fill(escapePlaceholders(value))).toEqual({
      value,
      paths: new Set(),
      secrets: [],
      unset: new Set(),
      findings: [],
    });
  },
);

it('keys are left alone, and the fields that were filled in are known', () => {
  const { value, paths, secrets } = fill({ '${NAME}': ['${NAME}'], key: '${file:/run/secrets/key}', plain: 1 });
  expect(value).toEqual({ '${NAME}': ['blog'], key: 's3cret', plain: 1 });
  expect(paths).toEqual(new Set([pathKey(['${NAME}', 0]), pathKey(['key'])]));
  expect(secrets).toEqual(['s3cret']);
});

it('no default is proposed for a secret', () => {
  const [finding] = fill({ sources: { blog: { auth: { key: '${UNSET}' } } } }).findings;
  expect(finding?.message).toContain('write ${file:/path} instead');
});
