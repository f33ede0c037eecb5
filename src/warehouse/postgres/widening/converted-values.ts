import type { ColumnType } from '../../../model/vocabulary.ts';
import { NUMBER_TEXT } from './number-text.ts';

/** From here on (2^54) Postgres and JavaScript may differ in the last digit that they write. */
const DIFFERENT = '18014398509481984';

/**
 * A stored value of type `from` as the wider type holds it; `value` is SQL. Exact for all pairs but those of
 * `shape/evolve-shape.ts`: for them it is the best that can be said without the record's body.
 */
export function converted(value: string, from: ColumnType, to: ColumnType): string {
  return (TARGETS[to] ?? textOf)(value, from);
}

const TARGETS: Partial<Record<ColumnType, (value: string, from: ColumnType) => string>> = {
  double: (value) => `${value}::double precision`,
  numeric: (value, from) => (from === 'double' ? `${textOf(value, from)}::numeric` : `${value}::numeric`),
  timestamp: (value) => `${value}::timestamp AT TIME ZONE 'UTC'`,
  json: (value, from) => `to_jsonb(${AS_JSON[from]?.(value) ?? value})`,
};

/** What is not in JSON as it is in its column. */
const AS_JSON: Partial<Record<ColumnType, (value: string) => string>> = {
  double: (value) => `${textOf(value, 'double')}::numeric`,
  date: (value) => textOf(value, 'date'),
  timestamp: (value) => textOf(value, 'timestamp'),
};

const AS_TEXT: Partial<Record<ColumnType, (value: string) => string>> = {
  // With milliseconds only where there are some.
  timestamp: (value) => `replace(to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), '.000', '')`,
  double: (value) => `CASE WHEN abs(${value}) >= ${DIFFERENT} THEN ${NUMBER_TEXT}(${value})
    WHEN ${value} <> 0 AND abs(${value}) < 1e-6 THEN replace(${value}::text, 'e-0', 'e-')
    ELSE ${value}::text::numeric::text END`,
};

function textOf(value: string, from: ColumnType): string {
  return AS_TEXT[from]?.(value) ?? `${value}::text`;
}
