import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import type { Stage, Subject } from '../stage.ts';
import { fieldPaths, valuesAt } from './records.ts';

/** Names of fields that identify a record, the surest first; other names that end so come after them. */
const USUAL = [
  'id',
  '_id',
  'uuid',
  'uid',
  'guid',
  'documentid',
  'sys.id',
  'objectid',
  'key',
  'identifier',
  'handle',
  'slug',
];
const SAYS_ID = /(?:^|[._])(?:uu|gu|u)?id$|[a-z](?:Id|ID|Uid|UUID)$|_key$/;

/** Fields that every record has and no two share, the likeliest first; no links to other records, no texts or times. */
export function idCandidates(records: readonly JsonObject[], name: string): string[] {
  if (records.length === 0) return [];
  return fieldPaths(records)
    .filter((path) => isUnique(valuesAt(records, path)) && (rankOf(path, name) > 0 || records.length > 5))
    .filter((path) => rankOf(path, name) > 0)
    .toSorted((a, b) => rankOf(b, name) - rankOf(a, name));
}

function isUnique(values: readonly (JsonValue | undefined)[]): boolean {
  const keys = values.map((value) => {
    if (typeof value === 'string') return value === '' || value.length > 300 ? null : value;
    return Number.isInteger(value) || isExact(value) ? JSON.stringify(value) : null;
  });
  return keys.every((key) => key !== null) && new Set(keys).size === keys.length;
}

function rankOf(path: string, name: string): number {
  const at = USUAL.indexOf(path.toLowerCase());
  if (at !== -1) return 100 - at;
  const singular = name.replace(/ies$/, 'y').replace(/s$/, '');
  const last = path.split('.').at(-1) ?? '';
  if (new RegExp(`^${singular}_?id$`, 'i').test(last)) return 85;
  return SAYS_ID.test(path) ? (path.includes('.') ? 10 : 40) : 0;
}

/** The field that identifies a record, of the first page; it may be replaced when records are read alone. */
export function probeId(stage: Stage, subject: Subject): string[] {
  const { findings, records } = subject;
  const found = idCandidates(records, subject.name);
  const before = stage.conventions.item?.id;
  const candidates =
    before !== undefined && found.includes(before) ? [before, ...found.filter((id) => id !== before)] : found;
  const [first] = candidates;
  if (first === undefined) {
    subject.id = '';
    findings.guessed(
      ['id'],
      'id',
      records.length === 0 ? 'the listing is empty' : 'no field is there in every record and unique',
    );
    return [];
  }
  subject.id = first;
  const evidence = `in all ${records.length} records, no two alike`;
  if (records.length > 1) findings.proved(['id'], first, evidence);
  else findings.guessed(['id'], first, 'there is only one record');
  return candidates;
}
