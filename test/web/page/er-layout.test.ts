import { describe, expect, it } from 'vitest';
import type { Dictionary } from '../../../src/serve/dictionary/dictionary.ts';
import { layOut, type ErLayout, type PlacedNode } from '../../../src/web/page/er-layout.ts';
import { largeDictionary, smallDictionary } from '../sample-dictionary.ts';

function layoutOf({ tables, relations }: Dictionary): ErLayout {
  const copied = tables.filter(({ kind }) => kind === 'table');
  const nodes = copied.map(({ name, columns }) => ({ name, rows: columns.slice(0, 3).map((column) => column.name) }));
  return layOut(
    nodes,
    relations.map(({ from, to }) => ({ from: from.table, row: 1, to: to.table })),
  );
}

function overlap(a: PlacedNode, b: PlacedNode): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

describe('the places of tables in the diagram', () => {
  it.each([
    ['3 tables', smallDictionary(), 3],
    ['40 tables', largeDictionary(), 40],
  ])('of %s do not overlap and lie within the picture', (_, dictionary, count) => {
    const { width, height, nodes } = layoutOf(dictionary);
    expect(nodes).toHaveLength(count);
    for (const [at, node] of nodes.entries()) {
      expect(nodes.slice(at + 1).filter((other) => overlap(node, other))).toEqual([]);
      expect(node.x + node.width).toBeLessThan(width);
      expect(node.y + node.height).toBeLessThan(height);
    }
    expect(width).toBeLessThan(1_900);
  });

  it('lie to the right of those that they point to', () => {
    const { nodes } = layoutOf(smallDictionary());
    const at = new Map(nodes.map(({ name, x }) => [name, x]));
    expect([...at.keys()].toSorted((a, b) => (at.get(a) ?? 0) - (at.get(b) ?? 0))).toEqual([
      'images',
      'content',
      'analytics',
    ]);
  });

  it('need no relation and no table', () => {
    expect(layOut([], []).nodes).toEqual([]);
    expect(layOut([{ name: 'one', rows: [] }], []).nodes).toHaveLength(1);
  });
});
