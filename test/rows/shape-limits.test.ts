import { describe, expect, it } from 'vitest';
import { columnsOf, recordsOf, rowsOf, shapePage, shapePages } from './shaping.ts';

/** Objects within objects. */
function nested(levels: number): string {
  return `${'{"a":'.repeat(levels - 1)}{"b":1}${'}'.repeat(levels - 1)}`;
}

/** A record with the fields `f<from>` and so on. */
function wide(from: number, count: number): string {
  const fields = Array.from({ length: count }, (_, n): [string, number] => [`f${from + n}`, from + n]);
  return JSON.stringify({ id: 1, ...Object.fromEntries(fields) });
}

function freeze(...pages: string[][]): unknown {
  return shapePages(pages, { contract: 'freeze' });
}

describe('records beyond the limits', () => {
  it.each([
    ['1,000 levels of arrays', `{"id":2,"x":${'['.repeat(1000)}${']'.repeat(1000)}}`, 'too_deep'],
    ['101 levels of objects', nested(101), 'too_deep'],
    ['a million levels', `{"id":2,"x":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`, 'too_deep'],
    ['200,000 fields', `{${Array.from({ length: 200_000 }, (_, n) => `"k${n}":0`).join(',')}}`, 'too_wide'],
    ['a million elements', `{"id":2,"x":[${'0,'.repeat(999_999)}0]}`, 'too_wide'],
    ['a field name of a megabyte', `{"id":2,"${'k'.repeat(1_000_000)}":1}`, 'key_too_long'],
    ['no object around them', '[{"id":2}]', 'not_an_object'],
  ])('F096 F097 T13 are set aside for %s, and the rest of the page stands', (_, text, reason) => {
    const page = shapePage(['{"id":1,"a":"x"}', text, '{"id":3,"a":"y"}']);
    expect(page.rejects).toEqual([{ index: 1, reason, detail: expect.any(String) }]);
    expect(columnsOf(page.shape)).toEqual(['content.a text']);
    expect(rowsOf(page, 'content')).toEqual([
      { id: '1', a: 'x' },
      { id: '3', a: 'y' },
    ]);
  });

  it('F096 keeps a record of exactly a hundred levels', () => {
    expect(shapePage([nested(100)]).rejects).toEqual([]);
  });
});

describe('more fields than columns', () => {
  it('F111 adds nothing for further fields later, and takes objects, arrays and odd paths whole', () => {
    const odd = '{"id":1,"f0":7,"o":{"x":{"y":1}},"l":[1,2],"a.b":"dot","q\\"":12345678901234567890,"n":null,"e":[]}';
    const [first, second] = shapePages([[wide(0, 11)], [odd]], { max_columns: 10 });
    expect(second?.shape).toBe(first?.shape);
    const [row] = rowsOf(second ?? raise(), 'content');
    expect(row?.['f0']).toBe(7);
    expect(row?.['_overflow']).toBe(
      '{"o":{"x":{"y":1}},"l":[1,2],"[\\"a.b\\"]":"dot","[\\"q\\\\\\"\\"]":12345678901234567890}',
    );
  });

  it('F111 gives a wide child table an _overflow of its own', () => {
    const page = shapePage([`{"id":1,"l":[${wide(0, 12)},null,${wide(5, 3)}]}`], { max_columns: 10 });
    expect(rowsOf(page, 'content_l').map((row) => row['_overflow'])).toEqual([
      '{"f9":9,"f10":10,"f11":11}',
      null,
      null,
    ]);
  });

  it('F094 repairs what goes into _overflow', () => {
    const page = shapePage([wide(0, 10), String.raw`{"id":2,"x":"\u0000","big":12345678901234567890}`], {
      max_columns: 10,
    });
    expect(rowsOf(page, 'content')[1]?.['_overflow']).toBe('{"x":"␀","big":12345678901234567890}');
    expect(page.repaired).toBe(1);
  });
});

describe('contracts', () => {
  const grown = ['{"id":1,"a":1,"l":[1]}'];
  const other = ['{"id":1,"a":"x"}', '{"id":2,"a":2,"l":[2]}', '{"id":3,"a":3,"b":{"c":1}}', '{"id":4,"l":["x",4]}'];

  it('freeze takes its tables from the first page and refuses to change them', () => {
    expect(() => freeze(grown, ['{"id":2,"a":2,"l":[],"b":null}'])).not.toThrow();
    for (const text of ['{"id":1,"a":"x"}', '{"id":1,"new":1}', '{"id":1,"l":[{"x":1}]}', '{"id":1,"m":["x"]}']) {
      expect(() => freeze(grown, [text])).toThrow(
        expect.objectContaining({ code: 'contract_frozen', recovery: 'stop', hint: expect.stringContaining('evolve') }),
      );
    }
  });

  it('discard_row sets aside what does not fit, rows of children included', () => {
    const page = shapePages([grown, other], { contract: 'discard_row' })[1] ?? raise();
    expect(page.rejects.map(({ index, reason }) => [index, reason])).toEqual([
      [0, 'contract'],
      [2, 'contract'],
      [3, 'contract'],
    ]);
    expect(page.rejects.map(({ detail }) => detail.split(' ')[0])).toEqual(['a', 'b', 'l']);
    expect(rowsOf(page, 'content')).toEqual([{ id: '2', a: 2 }]);
    expect(rowsOf(page, 'content_l')).toEqual([{ content_id: '2', position: 0, value: 2 }]);
    expect(page.changes).toEqual([]);
  });

  it('discard_value leaves out the values and counts them', () => {
    const page = shapePages([grown, other], { contract: 'discard_value' })[1] ?? raise();
    expect(rowsOf(page, 'content').map((row) => row['a'])).toEqual([null, 2, 3, null]);
    expect(rowsOf(page, 'content_l').map((row) => row['value'])).toEqual([2, null, 4]);
    expect(page).toMatchObject({ discarded: 3, changes: [], rejects: [] });
  });
});

it('keeps the records as they came', () => {
  const records = recordsOf('{"id":1,"a":[{"b":[1]}],"c":{"d":"e"}}');
  const before = JSON.stringify(records);
  shapePage(records.map((record) => record.bytes.toString()));
  expect(JSON.stringify(records)).toBe(before);
});

function raise(): never {
  throw new Error('not there');
}
