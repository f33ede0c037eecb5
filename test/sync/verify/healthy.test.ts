import { describe, expect, it } from 'vitest';
import type { VerifyReport } from '../../../src/sync/verify/report.ts';
import { jsonSuite, naughtyStrings } from '../../support/corpora.ts';
import { DATABASES, SQLITE } from '../../support/databases.ts';
import type { Journey } from '../../support/journey.ts';
import { sampled } from '../../support/length.ts';
import { ownStage } from '../../support/own-stage.ts';
import type { OwnRecord } from '../../support/record-service.ts';

const MODES = [['--internal'], []];

async function verify(stage: Pick<Journey, 'command'>, ...options: string[]) {
  const { code, stdout, stderr } = await stage.command('verify', '--json', ...options);
  const found = stdout
    .split('\n')
    .filter(Boolean)
    .map((line): VerifyReport => JSON.parse(line));
  return { code, stderr, found };
}

/** Values that are written, cut, widened, hidden or repaired in some other way than most. */
function oddRecords(): OwnRecord[] {
  const parsed = [...jsonSuite('test_parsing'), ...jsonSuite('test_transform')].flatMap(([name, bytes]) => {
    try {
      return name.startsWith('n_') ? [] : [JSON.parse(bytes.toString())];
    } catch {
      return [];
    }
  });
  const values: unknown[] = [
    ...parsed,
    ...naughtyStrings(),
    'a\u0000b',
    '\ud800',
    -0,
    1e21,
    5e-324,
    2 ** 53,
    '2024-01-01',
    '',
  ];
  return sampled(values, 4).map((value, index) => ({
    id: index + 1,
    updated_at: '2024-01-01T00:00:00Z',
    note: typeof value === 'string' ? value : `No. ${index}`,
    odd: value,
    list: [value, null, { deep: value, deeper: [[value]] }],
    author: { name: `Ann ${index}`, email: `ann${index}@example.org` },
    at: index % 2 === 0 ? '2024-03-01T10:00:00.120Z' : '2024-03-01 10:00:00+02:00',
    price: index % 3 === 0 ? index : index + 0.1,
    [`only_${index % 40}`]: index,
  }));
}

/** Numbers that no double holds, which no JavaScript value can be. */
const EXACT = '12345678901234567890.12345678901234567890';

function exact(record: OwnRecord): OwnRecord {
  return Object.assign({}, record, { exact: JSON.rawJSON(EXACT) });
}

const COPIES = [
  ...(['all', 'latest', 'none'] as const).map((history) => ({ database: SQLITE, history })),
  ...DATABASES.filter(({ name }) => name === 'postgres').map((database) => ({ database, history: 'all' as const })),
];

describe('a healthy copy', () => {
  it.for(sampled(COPIES, 3))(
    'of odd records is equal in each mode ($database.name, $history)',
    async ({ database, history }) => {
      const fields = { 'author.email': { hash: true }, note: { exclude: true }, author: { description: 'Who' } };
      const stage = await ownStage(database, oddRecords(), {
        behaviour: { listed: exact, alone: (record) => (record === undefined ? null : exact(record)) },
        content: {
          history,
          depth: 3,
          max_columns: 30,
          ...(history === 'latest' ? { contract: 'discard_value' } : { fields }),
        },
        source: { hash_key: 'canary-hash-key-0123456789', deletes: { max_part: 1 } },
      });
      stage.service.put(
        { id: '', title: 'without an id' },
        { id: 9_001, updated_at: '2024-01-02T00:00:00Z', price: 'much' },
      );
      stage.service.records.delete('3');
      await stage.walk('backfill');
      for (const mode of MODES) {
        const { code, found, stderr } = await verify(stage, ...mode);
        expect({ code, stderr, differences: found.map(({ differences }) => differences.first) }).toEqual({
          code: 0,
          stderr: '',
          differences: [[]],
        });
      }
    },
  );

  it('is equal while records change and are added at the service, but not once one is deleted there', async () => {
    const records = Array.from({ length: 60 }, (_, index) => dated(index + 1, '2024-01-01T00:00:00Z'));
    const stage = await ownStage(SQLITE, records, { content: { page: { size: 10 } } });
    const changed = new Set<string>();
    stage.service.behaviour.listed = (record, query) => {
      const page = query.get('cursor') ?? '0';
      if (page !== '0' && !changed.has(page)) {
        changed.add(page);
        const now = new Date(Date.now() + 1_000).toISOString();
        stage.service.put(dated(Number(page) + 15, now), dated(2, now), dated(100 + Number(page), now));
      }
      return record;
    };
    const { code, found } = await verify(stage);
    expect({ code, differences: found[0]?.differences.first }).toEqual({ code: 0, differences: [] });
    expect(found[0]?.changed_since.first).toEqual(expect.arrayContaining(['25']));
    stage.service.records.delete('58');
    const later = await verify(stage);
    expect({ code: later.code, differences: later.found[0]?.differences.first }).toEqual({
      code: 3,
      differences: [{ kind: 'extra', id: '58' }],
    });
  });
});

function dated(id: number, updated_at: string): OwnRecord {
  return { id, updated_at, title: `No. ${id} of ${updated_at}`, tags: ['a', String(id)] };
}
