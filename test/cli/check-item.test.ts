import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { journey } from '../support/journey.ts';
import { recordService, type Behaviour, type OwnRecord } from '../support/record-service.ts';
import { runInProcess } from './in-process.ts';

const RECORDS: OwnRecord[] = Array.from({ length: 9 }, (_, at) => ({
  id: at + 1,
  title: `title ${at}`,
  author: 3,
  tags: ['a'],
  updated_at: '2026-03-01T08:00:00Z',
}));

async function check(behaviour: Partial<Behaviour>, content: Record<string, unknown> = {}) {
  const service = await recordService(RECORDS, behaviour);
  const stage = await journey({
    source: { base_url: service.url, resources: ['content'] },
    profile: { resources: { content } },
  });
  const { code, stdout } = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
  return { service, code, line: /^.*content item: .*\n(?: +→ .*)?/m.exec(stdout)?.[0] ?? '' };
}

describe('content-sync check reads records alone', () => {
  it('the first, a middle and the last of a page, and says that they are the listed ones', async () => {
    const { service, line } = await check({});
    expect(line).toMatch(/ok {4}content item: 3 records read alone at \/content\/\{id\} are the listed ones/);
    expect(service.asked.filter((path) => path.startsWith('/v1/content/'))).toEqual([
      '/v1/content/1',
      '/v1/content/5',
      '/v1/content/9',
    ]);
  });

  it.each<[string, Behaviour['alone'], RegExp]>([
    [
      'other keys',
      (record) => record && { id: record.id, name: 'x' },
      /title, author, tags, updated_at only in the listing; name only when read alone/,
    ],
    [
      'an expanded relation',
      (record) => record && { ...record, author: { id: 3 } },
      /author is a number in the listing and an object when read alone/,
    ],
    [
      'a relation within a list',
      (record) => record && { ...record, tags: [{ name: 'a' }] },
      /tags\[\] is a text in the listing and an object when read alone/,
    ],
    ['another value', (record) => record && { ...record, title: 'the whole of it' }, /title with another value/],
    [
      'another id',
      (record) => record && { ...record, id: 77 },
      /the record 1 was requested, and the service returned another one/,
    ],
    [
      'a difference in one record only',
      (record) => (record?.id === 9 ? { ...record, title: null } : record),
      /record 9 .*title is a text in the listing and null/,
    ],
  ])('%s is a fault, told with the difference', async (_, alone, told) => {
    const { code, line } = await check({ alone });
    expect(line).toMatch(/FAIL/);
    expect(line).toMatch(told);
    expect(line).toMatch(/→ .*item/);
    expect(code).toBe(1);
  });

  it('a record that changed between the two is no fault', async () => {
    let reads = 0;
    const changing: { record: OwnRecord | null } = { record: null };
    const { line } = await check({
      listed: (record) => (record.id === 5 && changing.record !== null ? changing.record : record),
      alone: (record) => {
        if (record?.id !== 5) return record;
        reads += 1;
        changing.record = { ...record, title: 'changed', extra: 1, updated_at: '2026-03-01T09:00:00Z' };
        return changing.record;
      },
    });
    expect(line).toMatch(/ok {4}content item/);
    expect(reads).toBe(2);
  });

  it('listed records that cannot be read alone are told; it is a fault where none can', async () => {
    const some = await check({ alone: (record) => (record?.id === 9 ? null : record) });
    expect(some.line).toMatch(/warn {2}content item: the service answered 404 or 410 for 1 of 3 listed records/);
    const none = await check({ alone: () => null });
    expect(none.line).toMatch(/FAIL {2}content item: .*404 or 410 for 3 of 3/);
  });
});

describe('the query of a single record', () => {
  const expanded: Partial<Behaviour> = {
    listed: (record, query) => (query.get('populate') === '*' ? { ...record, author: { id: 3 } } : record),
    alone: (record, query) => (record && query.get('populate') === '*' ? { ...record, author: { id: 3 } } : record),
  };

  it('is that of the listing where nothing else is said', async () => {
    const { line, service } = await check(expanded, { query: { populate: '*' } });
    expect(line).toMatch(/ok {4}content item/);
    expect(service.asked).toContain('/v1/content/1?populate=*');
  });
});
