import type { JsonValue } from '../../model/json.ts';
import type { ResourceShape, SourcePath } from '../../model/table.ts';
import { keysOf, keysOfText, OVERFLOW } from '../../shape/columns/source-path.ts';
import { canonicalHash, textHash } from '../../shape/records/fingerprint.ts';
import { shapeRecords } from '../../shape/shape-page.ts';
import type { ShapeRecord } from '../../shape/write-rows.ts';
import type { FieldSettings } from '../../source/field-settings.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { addToDigest, cellsByField, shapedRows, type SpelledRow } from './spelled-rows.ts';

/** What shaping a record gives: its rows; or that it is one which the copy sets aside. */
export interface ExpectedRecord {
  key: string;
  /** Of its rows (`addToDigest`); null if it is set aside. */
  digest: string | null;
}

/**
 * Records as the rows that loading them would write into tables of this shape. What the tables have no column for makes
 * another digest than any row has.
 */
export function expectedRecords(
  shape: ResourceShape,
  profile: ResourceProfile,
  records: readonly ShapeRecord[],
): ExpectedRecord[] {
  const { aside, rows } = shapedAlone(shape, profile, records);
  const digests = new Map<string, string>();
  for (const row of rows) digests.set(row.key, addToDigest(digests.get(row.key) ?? '', row));
  return records.map(({ key }) => ({ key, digest: aside.has(key) ? null : (digests.get(key) ?? '') }));
}

/** The shape without what fields hold of which a change alone is none; their values within other columns neither. */
export function comparedShape(shape: ResourceShape, fields: Readonly<Record<string, FieldSettings>>): ResourceShape {
  const uncompared = Object.entries(fields).flatMap(([path, { compare }]) => (compare ? [] : [keysOfText(path)]));
  if (uncompared.length === 0) return shape;
  const isCompared = (path: SourcePath): boolean =>
    path.at(-1) !== OVERFLOW && !uncompared.some((field) => startsWith(keysOf(path), field));
  const tables = shape.tables.map((table) => {
    const columns = table.columns.filter(
      ({ path, type }) =>
        isCompared(path) && !(type === 'json' && uncompared.some((field) => startsWith(field, keysOf(path)))),
    );
    return { ...table, columns };
  });
  return { ...shape, tables: tables.filter(({ path }) => isCompared(path)) };
}

function startsWith(path: readonly string[], start: readonly string[]): boolean {
  return start.every((key, at) => path[at] === key);
}

/** The cells of one record by field; null if it is set aside. */
export function expectedCells(
  shape: ResourceShape,
  profile: ResourceProfile,
  record: ShapeRecord,
): Map<string, string | null> | null {
  const shaped = shapeRecords({ shape, profile: lenient(profile), records: [record] });
  return shaped.rejects.length > 0 ? null : cellsByField(shaped.shape, shapedRows(shaped.shape, shaped.rows));
}

/** One record that needs other tables must not change the rows of those beside it. */
function shapedAlone(
  shape: ResourceShape,
  profile: ResourceProfile,
  records: readonly ShapeRecord[],
): { aside: Set<string>; rows: SpelledRow[] } {
  const shaped = shapeRecords({ shape, profile: lenient(profile), records });
  if (shaped.shape !== shape && records.length > 1) {
    const alone = records.map((record) => shapedAlone(shape, profile, [record]));
    return { aside: new Set(alone.flatMap(({ aside }) => [...aside])), rows: alone.flatMap(({ rows }) => rows) };
  }
  const aside = new Set(shaped.rejects.flatMap(({ index }) => records[index]?.key ?? []));
  return { aside, rows: [...shapedRows(shaped.shape, shaped.rows)] };
}

/** Under `freeze` a record that does not fit would end a run: here it is one more that the tables do not hold. */
function lenient(profile: ResourceProfile): ResourceProfile {
  return profile.contract === 'freeze' ? { ...profile, contract: 'evolve' } : profile;
}

/** What a record says and what its rows come to, as one: equal for all that the copy takes for the same. */
export function contentOf(value: JsonValue, digest: string): string {
  return contentFrom(canonicalHash(value), digest);
}

/** The same from the fingerprint of the value (`canonicalHash`). */
export function contentFrom(hash: string, digest: string): string {
  return textHash(`${hash} ${digest}`);
}
