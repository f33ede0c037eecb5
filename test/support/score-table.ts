import { onTestFinished } from 'vitest';
import type { PageOutcome } from '../../src/load/page-loader.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import { loadOnce } from './content-loader.ts';
import { asOtherClient, POSTGRES, preparedAddress } from './databases.ts';
import { longOrShort } from './length.ts';

/** Far more rows than are widened in place, and few. */
export const BIG = longOrShort(25_000, 17_000);
export const SMALL = 20;

/** A record that makes `score` (integer) and `rate` (double) texts. */
export const WIDER = '{"id":"wider","score":"five","rate":"low"}';

export interface ScoreTable {
  address: string;
  load: (texts: readonly string[]) => Promise<PageOutcome>;
}

/** A Postgres warehouse, of its own or at an address, with so many rows in `content`, each with a score and a rate. */
export async function scoreTable(rows: number, server?: string): Promise<ScoreTable> {
  const address = server ?? (await preparedAddress(POSTGRES));
  const warehouse = await openWarehouse(address, systemClock);
  onTestFinished(() => warehouse.close());
  const load = async (texts: readonly string[]): Promise<PageOutcome> => (await loadOnce(warehouse, texts)).outcome;
  await load(['{"id":"0","score":0,"body":"first","rate":0.5,"tags":["a"]}']);
  await asOtherClient(address, (client) =>
    client.query(
      `INSERT INTO content (id, _hash, _version, _synced_at, score, body, rate)
       SELECT n::text, 'h', 1, now(), n, repeat('x', 500), n + 0.5 FROM generate_series(1, $1::int) AS n`,
      [rows - 1],
    ),
  );
  return { address, load };
}

/** One row that says whether every value is there and right, before the widening and after it. */
export const SUMS = `SELECT count(*)::int AS rows, count(score)::int AS scores, count(rate)::int AS rates,
  sum(CASE WHEN score::text ~ '^\\d+$' THEN score::text::numeric END)::text AS sum,
  min(rate::text) FILTER (WHERE id = '7') AS rate FROM content`;

/** What `SUMS` finds of so many rows and `more` that were loaded since. */
export function sumsOf(rows: number, more = 0): Record<string, unknown> {
  const all = rows + more;
  return { rows: all, scores: all, rates: all, sum: String((rows * (rows - 1)) / 2), rate: '7.5' };
}

/** What a widening must not leave behind. */
export const LEFT_OVER = `SELECT attname FROM pg_attribute WHERE attrelid = 'content'::regclass AND attname LIKE '\\_sync\\_wider%'
  UNION ALL SELECT relname FROM pg_class WHERE relname LIKE '\\_sync\\_wider%'
  UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE '\\_sync%' AND 'float8'::regtype = ANY(proargtypes)`;
