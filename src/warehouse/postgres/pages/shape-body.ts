import type { Years } from '../../../model/calendar-day.ts';
import type { JsonValue } from '../../../model/json.ts';
import { yearsOfRows } from '../../../shape/columns/years-of-rows.ts';
import { elementReader } from '../../../shape/json/parse-body.ts';
import { canonicalHash, textHash } from '../../../shape/records/fingerprint.ts';
import { isObject } from '../../../shape/records/field-at.ts';
import { recordKey } from '../../../shape/records/record-key.ts';
import { shapeRecords, type ShapedPage } from '../../../shape/shape-page.ts';
import type { BodyToShape, ShapedBody, ShapedRecord, ShapingPlan } from '../../page-shaper.ts';
import type { WrittenRecord } from '../../warehouse.ts';
import { COPIED_AT_ONCE, type CopyMemory } from '../connection/copy-data.ts';
import { encodePage, joinedPages, type EncodedPage } from './encode-page.ts';

/** Records that are in hand at once: they are garbage before it would be moved, and rows of so many are copied at once. */
const RECORDS_AT_ONCE = COPIED_AT_ONCE;
/** The first version of a record. */
const NEW = 1;

/** Null if the records are to be read where it is known what to do with them. Throws for what cannot be read. */
export function shapeBody(
  memory: CopyMemory,
  plan: ShapingPlan,
  body: BodyToShape,
): { shaped: ShapedBody; encoded: EncodedPage } | null {
  const records: ShapedRecord[] = [];
  const shaped = { records, years: null as Years | null, overflowed: 0, discarded: 0, repaired: 0 };
  const parts: EncodedPage[] = [];
  for (let at = 0; at < body.borders.length; at += 2 * RECORDS_AT_ONCE) {
    const borders = body.borders.slice(at, at + 2 * RECORDS_AT_ONCE);
    const part = shapePart(memory, plan, { ...body, borders });
    if (part === null) return null;
    for (const { id, updated, hash } of part.records) records.push({ id, updated, hash });
    shaped.years = yearsOfBoth(shaped.years, yearsOfRows(part.made.rows, plan.year));
    shaped.overflowed += part.made.overflowed;
    shaped.discarded += part.made.discarded;
    shaped.repaired += part.made.repaired;
    parts.push(part.encoded);
  }
  return { shaped, encoded: joinedPages(memory, parts) };
}

/** A record as it is shaped and written. */
interface ReadRecord extends ShapedRecord, WrittenRecord {
  value: JsonValue;
}

interface ShapedPart {
  records: readonly ReadRecord[];
  made: ShapedPage;
  encoded: EncodedPage;
}

function shapePart(memory: CopyMemory, plan: ShapingPlan, body: BodyToShape): ShapedPart | null {
  const { shape, profile, history } = plan;
  const records = readRecords(plan, body);
  if (records === null) return null;
  const made = shapeRecords({ shape, profile, records });
  if (made.shape !== shape || made.rejects.length > 0) return null;
  const { resource, tables } = shape;
  const { requestedAt } = body;
  const page = { resource, history, requestedAt, rows: made.rows, children: tables.slice(1), records };
  return { records, made, encoded: encodePage(memory, page, { mayBeThere: () => false, asText: false }) };
}

function yearsOfBoth(one: Years | null, other: Years | null): Years | null {
  if (one === null || other === null) return one ?? other;
  return [Math.min(one[0], other[0]), Math.max(one[1], other[1])];
}

/** Null if one of them has no usable key, or tells its time of change in another way than by a text or a plain number. */
function readRecords({ fields, history }: ShapingPlan, { bytes, borders, isPlain }: BodyToShape): ReadRecord[] | null {
  const read = elementReader(isPlain);
  const records: ReadRecord[] = [];
  for (let at = 0; at < borders.length; at += 2) {
    const source = bytes.subarray(borders[at], borders[at + 1]);
    const value = read(source.toString());
    const found = recordKey(value, fields.id);
    const [id, updated] = [memberOf(value, fields.id), memberOf(value, fields.updated)];
    if ('reject' in found || id === null || id === undefined || updated === undefined) return null;
    const hash = history === 'none' ? canonicalHash(value) : textHash(source);
    records.push({ id, updated, key: found.key, version: NEW, hash, bytes: source, value });
  }
  return records;
}

/** Undefined if it is a value of another kind. */
function memberOf(record: JsonValue, name: string | null): string | number | null | undefined {
  if (name === null || !isObject(record) || !Object.hasOwn(record, name)) return null;
  const value = record[name];
  return typeof value === 'string' || typeof value === 'number' || value === null ? value : undefined;
}
