import { describe, expect, it } from 'vitest';
import {
  type Ended,
  endsOf,
  expectWholeCopy,
  type FaultRow,
  ITS_FILTER,
  onStage,
  reportOf,
  requestsFor,
  testFaults,
} from './stage.ts';
import { sampled } from '../support/length.ts';

const PASSING = [408, 409, 421, 423, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524];
const LASTING: readonly [status: number, code: string, why: string][] = [
  [403, 'forbidden', 'F028 a 403 that is a permission'],
  [400, 'bad_request', 'F039 a refusal of the first page'],
  [404, 'not_found', 'F039 a listing that is not there'],
  [501, 'unexpected_status', 'F040 a method that is not supported'],
  [511, 'not_the_api', 'F034 a portal that wants a login'],
];

const NO_RECORDS: readonly [what: string, body: string, code: string][] = [
  ['an empty body', '', 'empty_body'],
  ['blanks', '  \n', 'empty_body'],
  ['null', 'null', 'empty_body'],
  ['an object without the records', '{"next_cursor":null}', 'bad_page'],
  ['records that are null', '{"data":null,"next_cursor":null}', 'bad_page'],
  ['records that are an object', '{"data":{"a":1},"next_cursor":null}', 'bad_page'],
  ['records that are a text', '{"data":"none","next_cursor":null}', 'bad_page'],
  ['an empty object', '{}', 'bad_page'],
];

const POISON = /GET http:\S+\/v1\/content\?\S*cursor=\w+.* answered 500.*3 attempts/;

function messageOf(ended: Ended): string {
  return reportOf(ended).error?.message ?? '';
}

describe('the service answers with an error', () => {
  testFaults([
    ...sampled(PASSING, 3).map((status): FaultRow => ({
      title: `F040 a ${status} that passes`,
      faults: [{ fault: 'status', status, page: 2, nth: 1 }],
      ends: 'ok',
      shows: [(stage, ended) => [reportOf(ended).retries, requestsFor(stage, 'content')], [1, 5 + ITS_FILTER]],
    })),
    ...LASTING.map(([status, code, title]): FaultRow => ({
      title,
      faults: [{ fault: 'status', status }],
      ends: `failed ${code}`,
      rows: 0,
      // At once: it does not get better by asking again.
      shows: [(stage) => requestsFor(stage, 'content'), 1],
    })),
    {
      title: 'F039 a poison page fails its resource alone, by name and after bounded attempts',
      faults: [{ fault: 'status', status: 500, page: 3 }],
      ends: 'failed service_error',
      rows: 8,
      shows: [(stage, ended) => [requestsFor(stage, 'content'), POISON.test(messageOf(ended))], [2 + 3, true]],
    },
    {
      title: 'F032 an error with status 200',
      faults: [{ fault: 'error-body', page: 3 }],
      ends: 'failed error_in_body',
      rows: 8,
    },
    ...NO_RECORDS.flatMap(([what, text, code], at): FaultRow[] =>
      sampled([1, 3], 2, at).map((page) => ({
        title: `F033 ${what} as page ${page} is never the end of the data`,
        faults: [{ fault: 'body', text, page }],
        ends: `failed ${code}`,
        rows: (page - 1) * 4,
      })),
    ),
    {
      title: 'F034 a challenge page',
      faults: [{ fault: 'html', page: 2 }],
      ends: 'failed not_the_api',
      rows: 4,
    },
    {
      title: 'F038 a cursor that expired once: the walk begins again, nothing twice',
      faults: [{ fault: 'status', status: 410, page: 3, nth: 1 }],
      ends: 'ok',
      shows: [
        async (stage, ended) => {
          const { inserted, updated, unchanged } = reportOf(ended);
          const versions = await stage.query('SELECT max(version) AS most FROM _sync_versions');
          return { requests: requestsFor(stage, 'content'), inserted, updated, unchanged, versions };
        },
        { requests: 3 + 4 + ITS_FILTER, inserted: 16, updated: 0, unchanged: 8, versions: [{ most: 1 }] },
      ],
    },
    {
      title: 'F038 a cursor that expires always ends the walk after one new beginning',
      faults: [{ fault: 'status', status: 410, page: 3 }],
      ends: 'failed cursor_expired',
      rows: 8,
      shows: [(stage) => requestsFor(stage, 'content'), 3 + 3],
    },
    {
      title: 'F030 a third of all requests is limited, at random',
      faults: [{ fault: 'status', status: 429, 'retry-after': '1', probability: 0.3, seed: 7 }],
      ends: 'ok',
      shows: [(_stage, ended) => reportOf(ended).limited > 0, true],
    },
  ]);

  it.concurrent('F038 a stored cursor that expired between two runs is not where the walk goes on from', async () => {
    await onStage({}, async (stage) => {
      const { faults } = stage.sandbox;
      faults.add({ fault: 'reset', resource: 'content', page: 3 });
      expect((await stage.backfill()).code).toBe(3);
      faults.clear();
      faults.add({ fault: 'status', status: 410, resource: 'content', page: 3, nth: 1 });
      const resumed = await stage.backfill();
      expect(endsOf(resumed)).toEqual({ content: 'ok', images: 'ok', analytics: 'ok' });
      expect(reportOf(resumed)).toMatchObject({ inserted: 8, updated: 0, unchanged: 8 });
      await expectWholeCopy(stage);
    });
  });
});
