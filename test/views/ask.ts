import { types } from 'pg';
import type { TestDatabase } from '../support/databases.ts';
import { asReader } from '../support/postgres-clients.ts';
import { asOther } from '../support/temp-warehouse.ts';
import type { Journey } from '../support/journey.ts';

/** A row of an answer. */
export type Row = Record<string, unknown>;

/** Runs queries on the warehouse as any other program would, in a session of that time zone where there are any. */
export type Ask = (queries: readonly string[], zone?: string) => Promise<(Row[] | Error)[]>;

export function asking(database: TestDatabase, stage: Pick<Journey, 'address' | 'file'>): Ask {
  if (database.name === 'sqlite') return (queries) => Promise.resolve(askFile(stage.file, queries));
  return (queries, zone = 'UTC') => askPostgres(stage.address, queries, zone);
}

function askFile(file: string, queries: readonly string[]): (Row[] | Error)[] {
  return asOther(file, (db) =>
    queries.map((query) => {
      try {
        return db.prepare<[], Row>(query).all().map(alike);
      } catch (error) {
        return asError(error);
      }
    }),
  );
}

function askPostgres(address: string, queries: readonly string[], zone: string): Promise<(Row[] | Error)[]> {
  // One session for all: a new one has to learn of every view again, which takes longer than the queries.
  return asReader(address, async (client) => {
    await client.query(`SET TIME ZONE '${zone}'`);
    const answers: (Row[] | Error)[] = [];
    for (const text of queries) {
      const asked = client.query<Row>({ text, types: { getTypeParser: parserOf } });
      answers.push(await asked.then(({ rows }) => rows.map(alike), asError));
    }
    await client.query('RESET TIME ZONE');
    return answers;
  });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

const { BOOL, FLOAT8, INT2, INT4, INT8, NUMERIC, TIMESTAMPTZ } = types.builtins;
const [TRUTH, MOMENT_TYPE]: readonly number[] = [BOOL, TIMESTAMPTZ];
const NUMBERS: ReadonlySet<number> = new Set([FLOAT8, INT2, INT4, INT8, NUMERIC]);

/** Numbers as numbers and truths as 0 and 1, as SQLite has them; all else as the server writes it. */
function parserOf(type: number): (text: string) => unknown {
  if (type === TRUTH) return (text) => (text === 't' ? 1 : 0);
  if (type === MOMENT_TYPE) return (text) => new Date(text).toISOString();
  return NUMBERS.has(type) ? Number : String;
}

const MOMENT = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$/;
const DIGITS = 1e6;

/** Makes rows of both databases comparable: times in ISO 8601, numbers to six decimals. */
function alike(row: Row): Row {
  const cells = Object.entries(row).map(([name, value]) => {
    if (typeof value === 'number') return [name, Math.round(value * DIGITS) / DIGITS] as const;
    return [name, typeof value === 'string' && MOMENT.test(value) ? isoOf(value) : value] as const;
  });
  return Object.fromEntries(cells);
}

function isoOf(text: string): string {
  return new Date(`${text.replace(' ', 'T')}Z`).toISOString();
}
