import { expect, it } from 'vitest';
import { hasToken, parseTemplate, type TemplateSegment } from '../../src/source/signature-scheme.ts';

const token = (name: string, argument = '') => ({ token: name, name: argument });

it.each([
  ['{ts}.{body}', [token('ts'), '.', token('body')]],
  ['v0:{ts}:{body}', ['v0:', token('ts'), ':', token('body')]],
  ['{header:X-Topic}', [token('header', 'x-topic')]],
  ['{part:T}', [token('part', 'T')]],
  ['{{{body}}}', ['{', token('body'), '}']],
])('%s is read', (text, segments) => {
  expect(parseTemplate(text)).toEqual({ segments });
});

it.each([
  ['{body', /^expected \{\{ and \}\} for braces/],
  ['{nobody}', /^expected tokens out of \{id\} \{ts\} \{body\} .*\{header:<name>\}/],
  ['{header}', /^expected \{header:<name>\}$/],
  ['{body:x}', /^expected \{body\}$/],
])('%s is at fault', (text, fault) => {
  expect(parseTemplate(text)).toMatchObject({ fault: expect.stringMatching(fault) });
});

it('tokens are found under any name', () => {
  const segments: TemplateSegment[] = [{ token: 'header', name: 'x-topic' }, '.'];
  expect([hasToken(segments, 'header'), hasToken(segments, 'part', 'header'), hasToken(segments, 'body')]).toEqual([
    true,
    true,
    false,
  ]);
});
