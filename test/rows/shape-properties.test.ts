import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/model/json.ts';
import type { ResourceShape } from '../../src/model/table.ts';
import { columnsOf, rowsOf, shapePages } from './shaping.ts';

/** Records over few keys and clashing kinds, so that most pages drift. */
const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<JsonValue>(null, true, 1, 1.5, 'x', '2024-01-01', '2024-01-01T00:00:00Z', '\0', '', 1e300),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'A', 'b', 'c.d', '[]', '__proto__'), tie('value'), { maxKeys: 4 }),
  ),
}));
const record = fc
  .dictionary(fc.constantFrom('a', 'b', 'c', 'a_b', 'x y', '[]'), value, { maxKeys: 6 })
  .map((fields) => JSON.stringify(fields));
const pages = fc.array(fc.array(record, { maxLength: 4 }), { minLength: 1, maxLength: 3 });
const profile = fc.record({ depth: fc.integer({ min: 1, max: 5 }), max_columns: fc.constantFrom(2, 10, 200) });

describe('shaping', () => {
  it('F103 settles, is stable when it is done again, and only ever adds and widens', () => {
    fc.assert(
      fc.property(pages, profile, (pages, profile) => {
        const all = pages.flat();
        const shaped = shapePages([...pages, all, all], profile);
        const [last, again] = shaped.slice(-2);
        expect(again?.shape).toBe(last?.shape);
        expect(again?.rows).toEqual(last?.rows);
        expect(again?.changes).toEqual([]);
        const columns = shaped.map((page) => namesOf(page.shape));
        const kept = columns.slice(1).map((after, index) => columns[index]?.every((name) => after.includes(name)));
        expect(kept).not.toContain(false);
      }),
      { numRuns: 300 },
    );
  });

  it('gives each record one row, each name one column, and each value a place', () => {
    fc.assert(
      fc.property(fc.array(record, { maxLength: 4 }), profile, (texts, profile) => {
        const [page] = shapePages([texts], profile);
        if (page === undefined) throw new Error('no page');
        expect(rowsOf(page, 'content')).toHaveLength(texts.length);
        const names = namesOf(page.shape).map((name) => name.toLowerCase());
        expect(new Set(names).size).toBe(names.length);
        const written = page.rows
          .flatMap((rows) => rows.cells)
          .map(String)
          .join(' ');
        for (const leaf of texts.flatMap((text) => leaves(JSON.parse(text)))) expect(written).toContain(leaf);
      }),
      { numRuns: 300 },
    );
  });
});

function namesOf(shape: ResourceShape): string[] {
  return columnsOf(shape).map((column) => column.split(' ')[0] ?? '');
}

/** What must be found again somewhere in the rows: everything but null, empty and changed texts. */
function leaves(value: JsonValue): string[] {
  if (value === null || value === '' || value === '\0') return [];
  if (typeof value === 'object') return Object.values(value).flatMap(leaves);
  // A moment stands as date and time, a double as the language or the source writes it.
  return [typeof value === 'string' ? value.slice(0, 10) : String(value)];
}
