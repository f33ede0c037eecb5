import { describe, expect, it } from 'vitest';
import { ask, type TextRow } from '../support/asking.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

type Fields = Record<string, unknown>;

const RECORDS = 24;

function record(index: number): Fields {
  const day = String((index % 28) + 1).padStart(2, '0');
  return {
    id: index + 1,
    updated_at: `2026-01-${day}T00:00:00Z`,
    amount: 10 + index,
    at: `2026-02-${day}T08:00:00Z`,
    seo: { image: `i${index}` },
    tags: ['p', 'q'],
  };
}

interface Drift {
  what: string;
  change: (fields: Fields, index: number) => Fields;
  /** A column of `report_live`, or of the view named, and its value for a record, as a text; null if it has none. */
  column: string;
  view?: string;
  value: (fields: Fields) => string | null;
  /** The code of the warning that names the column where it has no values any more, or other ones. */
  code?: string;
}

const textOf = (value: unknown): string | null =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : null;
const amount = ({ amount: value }: Fields): string | null => textOf(value);

const DRIFTS: readonly Drift[] = [
  {
    what: 'a new field',
    change: (fields, index) => (index === 3 ? { ...fields, rating: 5 } : fields),
    column: 'rating',
    value: ({ rating }) => textOf(rating),
  },
  {
    what: 'a field is gone',
    change: (fields) => ({ ...fields, amount: undefined }),
    column: 'amount',
    value: amount,
    code: 'columns_gone',
  },
  {
    what: 'a field is renamed',
    change: ({ amount: quantity, ...rest }) => ({ ...rest, quantity }),
    column: 'quantity',
    value: ({ quantity }) => textOf(quantity),
    code: 'columns_gone',
  },
  {
    what: 'whole numbers become decimals',
    change: (fields, index) => (index % 2 === 0 ? { ...fields, amount: 9.99 } : fields),
    column: 'amount',
    value: amount,
  },
  {
    what: 'a number becomes a text',
    change: (fields, index) => (index === 3 ? { ...fields, amount: '20 pcs' } : fields),
    column: 'amount',
    value: amount,
    code: 'column_is_text',
  },
  {
    what: 'an object becomes a list',
    change: (fields) => ({ ...fields, seo: [fields['seo']] }),
    column: 'seo_image',
    value: () => null,
    code: 'columns_gone',
  },
  {
    what: 'a list becomes a scalar',
    change: (fields, index) => (index === 3 ? { ...fields, tags: 'p' } : fields),
    view: 'report_summary',
    column: 'tags',
    value: ({ tags }) => (Array.isArray(tags) ? tags.join(', ') : null),
  },
  {
    what: 'only nulls',
    change: (fields) => ({ ...fields, amount: null }),
    column: 'amount',
    value: amount,
    code: 'columns_gone',
  },
  {
    what: 'another format of times',
    change: (fields, index) => ({ ...fields, at: `${(index % 28) + 1}.02.2026 10:00` }),
    column: 'at',
    value: ({ at }) => textOf(at),
    code: 'column_is_text',
  },
  {
    what: 'a field is nested deeper',
    change: ({ seo, ...rest }) => ({ ...rest, meta: { seo } }),
    column: 'meta_seo_image',
    value: ({ id }) => `i${Number(id) - 1}`,
    code: 'columns_gone',
  },
];

/** Views of an analyst on those of the copy; most cannot follow a column that becomes a text. */
const BI_VIEWS: readonly string[] = [
  'CREATE VIEW bi_amounts AS SELECT sum(amount) AS total FROM report_live',
  'CREATE VIEW bi_images AS SELECT seo_image, count(*) AS n FROM report_live GROUP BY seo_image',
  'CREATE VIEW bi_tags AS SELECT max(tags) AS last FROM report_summary',
  'CREATE VIEW bi_times AS SELECT min(at) AS first FROM report_live',
  'CREATE VIEW bi_history AS SELECT id, amount FROM report_history',
];

const CASES = DATABASES.flatMap((database) =>
  DRIFTS.map((drift) => Object.assign({ database, name: database.name }, drift)),
);

async function copyOf(database: TestDatabase) {
  const state = { records: Array.from({ length: RECORDS }, (_, index) => record(index)) };
  const profile = { updated: 'updated_at', history: 'all' };
  const stage = await ownService(database, profile, () => ({ body: { data: state.records, next_cursor: null } }));
  const run = async () => {
    const { resources } = await stage.run('backfill', {});
    const [{ status, warnings = [] } = { status: 'failed' }] = resources;
    return { status, warnings };
  };
  expect(await run()).toEqual({ status: 'ok', warnings: [] });
  for (const statement of BI_VIEWS) await database.write(stage.address, statement);
  return { stage, state, run };
}

function isSame(shown: string | null | undefined, expected: string | null): boolean {
  if (shown === null || shown === undefined || expected === null) return (shown ?? null) === expected;
  return shown === expected || (shown !== '' && Number(shown) === Number(expected));
}

describe('the columns of views when a service changes its fields', () => {
  it.each(CASES)(
    '$what, on $name, with views of an analyst',
    async ({ database, change, column, view = 'report_live', value, code }) => {
      const { stage, state, run } = await copyOf(database);
      state.records = state.records.map((fields, index) => {
        const changed = change(fields, index);
        return changed === fields ? fields : { ...changed, updated_at: '2026-03-01T00:00:00Z' };
      });
      const { status, warnings } = await run();

      const rows = new Map((await ask(stage.address, `SELECT * FROM ${view}`)).map((row: TextRow) => [row['id'], row]));
      const wrong = state.records.filter((fields) => {
        return !isSame(rows.get(String(fields['id']))?.[column], value(fields));
      });
      const held = warnings.filter((warning) => warning.code === 'view_held').map(({ message }) => message);
      const values = `${wrong.length} ${wrong.length === 1 ? 'value' : 'values'}`;
      const isNamed = held.some((message) => message.includes(`${view}.${column} still`) && message.includes(values));
      expect({ status, wrong: isNamed ? [] : wrong }).toEqual({
        status: held.length > 0 ? 'partial' : 'ok',
        wrong: [],
      });
      const missing = warnings.some((warning) => warning.code === code) || isNamed ? undefined : code;
      expect({ missing, warnings }).toEqual({ missing: undefined, warnings });
      // What the analyst has made goes on.
      for (const statement of BI_VIEWS) await ask(stage.address, `SELECT * FROM ${statement.split(' ')[2]}`);
    },
  );
});
