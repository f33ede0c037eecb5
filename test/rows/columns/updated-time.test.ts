import { describe, expect, it } from 'vitest';
import { storedZone, updatedColumns, updatedTime, updatedZone } from '../../../src/rows/columns/updated-time.ts';

const BOTH = ['changed', 'meta.created'];

describe('updatedTime', () => {
  it.each([
    ['the field itself', { changed: '2026-01-02T00:00:00Z' }, 'changed', '2026-01-02T00:00:00Z'],
    ['the first of several', { changed: '2026-01-02', meta: { created: '2026-01-01' } }, BOTH, '2026-01-02'],
    ['the next one where the first is null', { changed: null, meta: { created: '2026-01-01' } }, BOTH, '2026-01-01'],
    ['the next one where the first is absent', { meta: { created: 1_767_225_600 } }, BOTH, '1767225600'],
    ['none where the first is no time', { changed: 'soon', meta: { created: '2026-01-01' } }, BOTH, null],
    ['none where all are null', { changed: null, meta: null }, BOTH, null],
    ['none where no field is named', { changed: '2026-01-02' }, null, null],
  ])('is %s', (_, record, updated, text) => {
    expect(updatedTime(record, { updated })?.text ?? null).toBe(text);
  });

  it('reads all of them in their zone', () => {
    const by = { updated: ['a', 'b'], times: { a: '+02:00', b: '+02:00' } };
    expect(updatedTime({ a: null, b: '2026-01-01T02:00:00' }, by)?.at).toBe(Date.parse('2026-01-01T00:00:00Z'));
    expect(updatedZone(by)?.toLocal(0)).toBe(7_200_000);
  });
});

describe('their columns', () => {
  const columns = [
    { name: 'created', path: ['meta', 'created'], type: 'text' as const },
    { name: 'changed', path: ['changed'], type: 'timestamp' as const },
  ];

  it('stand in the order in which they count; a field without a value has none', () => {
    expect(updatedColumns(columns, { updated: BOTH }).map(({ name }) => name)).toEqual(['changed', 'created']);
    expect(updatedColumns(columns, { updated: ['other', 'changed'] }).map(({ name }) => name)).toEqual(['changed']);
  });

  it('hold UTC where all of them are moments, else what the service wrote', () => {
    const by = { updated: 'changed', times: { changed: '+02:00' } };
    expect(storedZone(columns.slice(1), by)).toBe(null);
    expect(storedZone(columns, by)).toBe(updatedZone(by));
  });
});
