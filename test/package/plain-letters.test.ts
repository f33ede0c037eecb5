import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { asPlainLetters } from './plain-letters.ts';

it.each([
  ['texts', `'ä…' + "𝄞\\n€" + '\\\\ü'`],
  ['templates', '`a ${1 + 1} … ${`ß`}`'],
  ['patterns', `'aß𝄞c'.replace(/[ß𝄞]/u, '-').replace(/𝄞/, '+').replace(/ü*/, '')`],
  ['names', `(() => { const größe = { naïve: 1 }; return größe.naïve; })()`],
])('writes letters of %s as escapes, and changes nothing else', (_, code) => {
  const plain = asPlainLetters(code);
  expect(plain).toMatch(/^[\0-\x7f]*$/);
  expect(runInNewContext(plain)).toEqual(runInNewContext(code));
});

it('refuses a raw template with such a letter, and no other one', () => {
  expect(() => asPlainLetters('String.raw`a\\n…`')).toThrow('…');
  expect(asPlainLetters("String.raw`a\\n` + '…'")).toBe("String.raw`a\\n` + '\\u2026'");
});
