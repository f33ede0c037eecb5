import { describe, expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { endsOf, expectWholeCopy, list, onStage, record, rejectsIn, reportOf } from './stage.ts';

const GOOD_IDS = ['good-1', 'good-2', 'good-3'];
const GOOD = GOOD_IDS.map((id, second) => record(id, { title: id }, second));

const nested = (levels: number): string => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
const withId = (id: string): string => `{"id":${id},"updated_at":"2026-01-01T00:00:00Z","title":"bad"}`;
const withField = (id: string, value: string): string =>
  `{"id":"${id}","updated_at":"2026-01-01T00:00:00Z","deep":${value}}`;

/** More fields or elements than a record may have. */
const MANY = longOrShort(1_000_000, 110_000);

/** Records that cannot become a row, by reason; all of them have to stand in `_sync_rejects` as they came. */
const BAD: readonly [title: string, text: string, reason: string][] = [
  ['F104 no id', '{"updated_at":"2026-01-01T00:00:00Z","title":"bad"}', 'id_missing'],
  ['F104 an id that is null', withId('null'), 'id_null'],
  ['F104 an empty id', withId('""'), 'id_empty'],
  ['F104 an id that is an object', withId('{"a":1}'), 'id_type'],
  ['F104 an id that is an array', withId('[1]'), 'id_type'],
  ['F104 an id that is true', withId('true'), 'id_type'],
  ['F104 an id with a fraction', withId('1.5'), 'id_type'],
  ['F104 an id of 50 kB', withId(`"${'x'.repeat(50_000)}"`), 'id_too_long'],
  ['F104 F094 an id with a NUL', withId('"a\\u0000b"'), 'id_characters'],
  ['F104 F095 an id that is half a character', withId('"a\\ud800"'), 'id_characters'],
  ['F104 a record that is no object', '"just a text"', 'id_missing'],
  ['F104 a record that is null', 'null', 'id_missing'],
  ['F096 nested 1,000 levels', withField('deep-1', nested(1_000)), 'too_deep'],
  ['F096 nested 10,000 levels', withField('deep-2', nested(10_000)), 'too_deep'],
  ['F096 T13 nested 100,000 levels', withField('deep-3', nested(100_000)), 'too_deep'],
  [
    'F096 nested 10,000 levels of objects',
    withField('deep-4', `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`),
    'too_deep',
  ],
  [
    'F096 T12 nested 10,000 levels around a long number',
    withField('deep-5', nested(10_000).replace('1', '12345678901234567890')),
    'too_deep',
  ],
  ['F097 a field name of 1 MB', `{"id":"wide","${'k'.repeat(1_000_000)}":1}`, 'key_too_long'],
  [`F097 an array of ${MANY}`, withField('wide-6', `[${'1,'.repeat(MANY - 1)}1]`), 'too_wide'],
  [
    `F097 ${MANY} fields`,
    withField('wide-7', `{${Array.from({ length: MANY }, (_, at) => `"k${at}":1`).join(',')}}`),
    'too_wide',
  ],
];

describe('a record that cannot become a row is set aside, and its page goes on', () => {
  // The good ones are gone from the second listing, and with so few that would be held.
  const believing = { source: { deletes: { max_part: 1 } } };

  // Each alone in the long form, several on a page in the short one.
  const pages = longOrShort(
    BAD.map((one) => [one]),
    [BAD.slice(0, 12), BAD.slice(12, 17), BAD.slice(17)],
  ).map((bad) => ({ title: bad.map(([title]) => title).join(', '), bad }));

  it.each(pages)('$title', async ({ bad }) => {
    await onStage(believing, async (stage) => {
      list(stage, [GOOD[0] ?? '', ...bad.map(([, text]) => text), ...GOOD.slice(1)]);
      const ended = await stage.backfill();
      expect(endsOf(ended)).toEqual({ content: 'partial', images: 'ok', analytics: 'ok' });
      expect(ended.code).toBe(3);
      const rejected = bad.length;
      expect(reportOf(ended)).toMatchObject({ records: 3 + rejected, inserted: 3, rejected });
      expect(await stage.query('SELECT id FROM content ORDER BY id')).toEqual(GOOD_IDS.map((id) => ({ id })));
      const rejects = await rejectsIn(stage);
      expect(rejects).toHaveLength(rejected);
      for (const [title, text, reason] of bad) {
        const reject = rejects.find(({ body }) => body === text);
        expect([title, reject?.reason, reject?.resolved_at]).toEqual([title, reason, null]);
      }

      stage.sandbox.faults.clear();
      expect((await stage.backfill()).code).toBe(0);
      const mended = await rejectsIn(stage);
      expect(mended.filter(({ resolved_at }) => resolved_at === null)).toEqual([]);
      expect(mended).toHaveLength(rejected);
    });
  });

  it('F104 F105 a reject that comes again is the same one, and closes when the service has mended or dropped it', async () => {
    await onStage({}, async (stage) => {
      list(stage, [...GOOD, withField('mended', nested(200)), withId('null'), withId('""')]);
      await stage.backfill('content');
      stage.clock.push(60_000);
      expect((await stage.backfill('content')).code).toBe(3);
      expect((await rejectsIn(stage)).map(({ resolved_at }) => resolved_at)).toEqual([null, null, null]);
      expect(await stage.query('SELECT count(*) AS n FROM _sync_rejects WHERE last_seen > first_seen')).toEqual([
        { n: 3 },
      ]);

      stage.clock.push(60_000);
      list(stage, [...GOOD, withField('mended', '[1]'), withId('""')]);
      const ended = await stage.backfill('content');
      expect(reportOf(ended)).toMatchObject({ status: 'partial', inserted: 1, rejected: 1 });
      const open = (await rejectsIn(stage)).filter(({ resolved_at }) => resolved_at === null);
      expect(open.map(({ reason }) => reason)).toEqual(['id_empty']);
    });
  });

  it('F104 F096 a record that was good keeps its row while what comes for it is bad', async () => {
    await onStage({}, async (stage) => {
      const put = (minute: number, value: string): void => {
        const time = new Date(Date.UTC(2030, 0, 1, 0, minute)).toISOString();
        stage.sandbox.store.put('content', `{"id":"x","updated_at":"${time}","v":${value}}`);
        stage.clock.push(60_000);
      };
      const row = () => stage.query(`SELECT v, _version FROM content WHERE id = 'x'`);
      put(0, '"first"');
      expect((await stage.sync()).code).toBe(0);
      put(1, nested(200));
      expect((await stage.sync()).code).toBe(3);
      expect(await row()).toEqual([{ v: 'first', _version: 1 }]);
      put(2, '"third"');
      expect((await stage.sync()).code).toBe(0);
      expect(await row()).toEqual([{ v: 'third', _version: 2 }]);
      expect((await rejectsIn(stage)).map(({ record_id, resolved_at }) => [record_id, resolved_at === null])).toEqual([
        ['x', false],
      ]);
      await expectWholeCopy(stage);
    });
  });
});
