import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const tests = path.join(import.meta.dirname, '..');
const readme = readFileSync(path.join(import.meta.dirname, 'README.md'), 'utf8');
const [tried = '', notTried = ''] = readme.split('\n## Not tried\n');

/** Numbers of faults (F), traps (T) and goals (G) that begin the items of a page. */
function listed(page: string): string[] {
  return [...page.matchAll(/^- ([FTG]\d+) /gm)].map(([, number = '']) => number);
}

/** Numbers that tests cite: those of traps and goals stand before a space, as in a title. */
function cited(): Set<string> {
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const texts = files.map((file) => readFileSync(path.join(tests, file), 'utf8'));
  return new Set(texts.flatMap((text) => text.match(/\bF\d{3}\b|\b[TG]\d\d?(?= )/g) ?? []));
}

describe('the catalogue of faults', () => {
  const numbers = cited();

  it('lists each number once, in its order', () => {
    const all = [...listed(tried), ...listed(notTried)];
    expect(all.length).toBeGreaterThan(150);
    expect(new Set(all).size).toBe(all.length);
    for (const kind of ['F', 'T', 'G']) {
      const ofKind = listed(tried).filter((number) => number.startsWith(kind));
      expect(ofKind).toEqual(ofKind.toSorted((one, other) => Number(one.slice(1)) - Number(other.slice(1))));
    }
  });

  it('has a test for each number that is not named as not tried', () => {
    expect(listed(tried).filter((number) => !numbers.has(number))).toEqual([]);
    expect(listed(notTried).filter((number) => numbers.has(number))).toEqual([]);
  });

  it('has every number that a test names', () => {
    const known = new Set(listed(readme));
    expect([...numbers].filter((number) => !known.has(number))).toEqual([]);
  });
});
