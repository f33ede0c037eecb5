import { describe, expect, it } from 'vitest';
import { textHash } from '../../../../src/shape/records/fingerprint.ts';
import { shapeRecords } from '../../../../src/shape/shape-page.ts';
import { COPIED_AT_ONCE, CopyMemory } from '../../../../src/warehouse/postgres/connection/copy-data.ts';
import { encodePage, joinedPages } from '../../../../src/warehouse/postgres/pages/encode-page.ts';
import { bodyOf, messagesOf, planOf, recordText, writtenOf } from './shaping.ts';

const NEW = { mayBeThere: () => false, asText: false };
const memory = new CopyMemory();

/** A page of so many new records. */
function pageOf(count: number, history: 'all' | 'none' = 'all') {
  const { shape, profile } = planOf(history);
  const records = writtenOf(bodyOf(Array.from({ length: count }, (_, at) => recordText(at))), ({ bytes }) =>
    textHash(bytes),
  );
  const { rows } = shapeRecords({ shape, profile, records });
  return { resource: 'content', history, requestedAt: '2026-11-20 10:00:00', rows, children: [], records };
}

/** A part of it, as if it had been a page of its own. */
function partOf(page: ReturnType<typeof pageOf>, from: number, to: number) {
  const [root, ...lists] = page.rows;
  if (root === undefined) throw new Error('a page without rows');
  const cut = (rows: typeof root, each: number) => ({
    ...rows,
    cells: rows.cells.slice(from * each * rows.width, to * each * rows.width),
  });
  return { ...page, rows: [cut(root, 1), ...lists.map((list) => cut(list, 2))], records: page.records.slice(from, to) };
}

describe('encodePage', () => {
  it('encodes new rows, lists and versions, each for one COPY, and no versions where no bodies are kept', () => {
    const { rows, versions } = encodePage(memory, pageOf(3), NEW);
    expect(rows.map(({ table, isBinary }) => [table.name, isBinary])).toEqual([
      ['content', true],
      ['content_tags', true],
    ]);
    expect(versions).toHaveLength(1);
    expect(encodePage(memory, pageOf(3, 'none'), NEW).versions).toEqual([]);
  });

  it('leaves rows out that may be there, whose lists and versions are new all the same', () => {
    const { rows, versions } = encodePage(memory, pageOf(3), { mayBeThere: () => true, asText: true });
    expect(rows.map(({ table, isBinary }) => [table.name, isBinary])).toEqual([['content_tags', false]]);
    expect(versions).toHaveLength(1);
  });
});

describe('joinedPages', () => {
  it('says what one page of all records says, byte for byte, where its parts end with an execution', () => {
    // Two tags each: of the lists a part ends with an execution as well.
    const page = pageOf(300);
    const borders = [0, COPIED_AT_ONCE, 2 * COPIED_AT_ONCE, 300];
    const parts = borders.slice(1).map((to, at) => encodePage(memory, partOf(page, borders[at] ?? 0, to), NEW));
    expect(messagesOf(joinedPages(memory, parts))).toEqual(messagesOf(encodePage(memory, page, NEW)));
  });

  it('keeps rows of one table apart that are in different formats', () => {
    const parts = [false, true, false].map((asText) => encodePage(memory, pageOf(2), { ...NEW, asText }));
    const { rows } = joinedPages(memory, parts);
    expect(rows.map(({ table, isBinary, data }) => [table.name, isBinary, data.executions])).toEqual([
      ['content', true, 2],
      ['content_tags', true, 2],
      ['content', false, 1],
      ['content_tags', false, 1],
    ]);
  });
});
