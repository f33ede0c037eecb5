// Finds times without a zone that the profile reads in the wrong zone; for `content-sync check`.
import type { JsonValue } from '../model/json.ts';
import { LOCAL, type TimeZone, zoneAt } from '../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../rows/columns/cells.ts';
import { type UpdatedBy, updatedPaths } from '../rows/columns/updated-time.ts';
import { isObject } from '../rows/records/as-record.ts';
import { type CheckFinding, fail, warn } from './listing-scan.ts';

/** One field's values, and how the profile reads it. */
interface LocalField {
  path: string;
  zone: TimeZone | null;
  /** `UTC`, or what the profile says. */
  readAs: string;
}

/** Texts by dotted path; none for a field that holds something else. */
type Texts = Map<string, string[]>;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Zones differ from UTC by whole quarters of an hour. */
export const QUARTER_MS = 15 * MINUTE_MS;
/** The largest offset from UTC of any zone. */
export const MAX_UTC_OFFSET_MS = 14 * HOUR_MS;
/** The max age of the newest record when the response is written, and the max difference of a service's clocks. */
const MAX_AGE_MS = 10_000;
const MAX_SKEW_MS = 2_000;
const MAX_LEVELS = 4;

export const UTC_NAME = /[_.-]?(gmt|utc)$/i;
const CHANGE_NAME = /creat|modif|updat|chang|edit/i;

/**
 * Looks for times without a zone that the profile reads in the wrong one: if another field of the same record has
 * the time, or the service's clock (epoch milliseconds; null if unknown) shows that it cannot be right.
 */
export function timesFindings(
  records: readonly JsonValue[],
  serverDate: number | null,
  { times, updated }: Required<UpdatedBy>,
): CheckFinding[] {
  const page = records.map(collectTexts);
  const paths = new Set(page.flatMap((texts) => [...texts.keys()]));
  const fields = [...paths].filter((path) => times[path] !== LOCAL && isLocalField(page, path));
  const found = fields.map((path): CheckFinding | null => {
    const field = { path, zone: zoneAt(times, path), readAs: Object.hasOwn(times, path) ? (times[path] ?? '') : 'UTC' };
    const other = compareWithOtherField(page, paths, field);
    if (other !== 'unknown') return other;
    return serverDate === null
      ? null
      : compareWithClock(page, serverDate, field, updatedPaths({ updated }).includes(path));
  });
  const strange = page.length === 0 ? [] : Object.keys(times).filter((path) => !paths.has(path));
  return [...found.filter((finding) => finding !== null), ...strange.map(noSuchField)];
}

function noSuchField(path: string): CheckFinding {
  const detail = `times names the field ${path}, which no record on the page has`;
  return warn('times', detail, 'name it as the path that leads to it, such as meta.published');
}

function collectTexts(record: JsonValue): Texts {
  const texts: Texts = new Map();
  const visit = (value: JsonValue, path: string, levels: number): void => {
    if (Array.isArray(value) && levels > 0) for (const element of value) visit(element, path, levels - 1);
    const known = texts.get(path) ?? [];
    if (typeof value === 'string') known.push(value);
    if (path !== '') texts.set(path, known);
    if (!isObject(value) || levels === 0) return;
    for (const key of Object.keys(value)) visit(value[key] ?? null, path === '' ? key : `${path}.${key}`, levels - 1);
  };
  visit(record, '', MAX_LEVELS);
  return texts;
}

/** True for a field all of whose times name no zone, and whose name does not tell it either. */
function isLocalField(page: readonly Texts[], path: string): boolean {
  const texts = page.flatMap((record) => record.get(path) ?? []).filter(isTime);
  return texts.length > 0 && texts.every(isLocalTime) && !UTC_NAME.test(path);
}

/** A date and time; a date alone is the same in all zones. */
function isTime(text: string): boolean {
  return text.length > 'YYYY-MM-DD'.length && parseInstant(text) !== null;
}

/** The finding from a field that has the same time; null if both agree. */
function compareWithOtherField(
  page: readonly Texts[],
  paths: ReadonlySet<string>,
  field: LocalField,
): CheckFinding | null | 'unknown' {
  const related = [...paths].filter((path) => path !== field.path && fieldStem(path) === fieldStem(field.path));
  for (const other of new Set([...related, ...paths])) {
    const isRelated = related.includes(other);
    const gaps = other === field.path ? [] : gapsBetween(page, field, other, isRelated);
    if (!areOffsets(gaps, isRelated ? 1 : 2)) continue;
    return gaps.every((gap) => gap === 0) ? null : offsetFinding(field, other, gaps);
  }
  return 'unknown';
}

/** `modified_gmt`, `modifiedUtc` and `modified` are about one time. */
export function fieldStem(path: string): string {
  return path.replace(UTC_NAME, '').toLowerCase();
}

/** Milliseconds by which the field is ahead of the other, per record that has both; none if that proves nothing. */
function gapsBetween(page: readonly Texts[], { path, zone }: LocalField, other: string, isRelated: boolean): number[] {
  const pairs = page.flatMap((record) => {
    const [local, reference] = [singleTime(record, path), singleTime(record, other)];
    return local === null || reference === null ? [] : [{ local, reference }];
  });
  const hasZone = UTC_NAME.test(other) || pairs.every(({ reference }) => !isLocalTime(reference));
  // Times that are all whole quarters of an hour differ by such whatever they are about.
  const isConclusive =
    isRelated || pairs.some(({ reference }) => (parseInstant(reference)?.epochMs ?? 0) % QUARTER_MS !== 0);
  if (!hasZone || !isConclusive) return [];
  return pairs.flatMap(({ local, reference }) => {
    const [read, expected] = [parseInstant(local, zone), parseInstant(reference)];
    return read === null || expected === null || read.latestMs !== undefined ? [] : [read.epochMs - expected.epochMs];
  });
}

function singleTime(record: Texts, path: string): string | null {
  const [text, ...more] = record.get(path) ?? [];
  return text !== undefined && more.length === 0 && isTime(text) ? text : null;
}

/** True for what a zone makes of a time: whole quarters of an hour, an hour more or less with the season. */
function areOffsets(gaps: readonly number[], least: number): boolean {
  if (gaps.length < least) return false;
  const areWhole = gaps.every((gap) => gap % QUARTER_MS === 0 && Math.abs(gap) <= MAX_UTC_OFFSET_MS);
  return areWhole && Math.max(...gaps) - Math.min(...gaps) <= HOUR_MS && new Set(gaps).size <= 2;
}

function offsetFinding(field: LocalField, other: string, gaps: readonly number[]): CheckFinding {
  const offsets = [...new Set(gaps)].toSorted((a, b) => a - b).map(formatUtcOffset);
  const records = gaps.length === 1 ? 'one record' : `${gaps.length} records`;
  const detail = `${field.path} names no zone and is read as ${field.readAs}, but stands ${offsets.join(' or ')} from ${other} in ${records}`;
  return fail('times', detail, hintFor(field));
}

function compareWithClock(
  page: readonly Texts[],
  serverDate: number,
  field: LocalField,
  isUpdated: boolean,
): CheckFinding | null {
  if (!isUpdated && !CHANGE_NAME.test(field.path)) return null;
  const ages = page.flatMap((record) =>
    (record.get(field.path) ?? [])
      .filter(isTime)
      .map((text) => serverDate - (parseInstant(text, field.zone)?.epochMs ?? NaN))
      // A time further ahead is no time of change in any zone.
      .filter((age) => age >= -MAX_UTC_OFFSET_MS - MINUTE_MS),
  );
  const youngest = Math.min(...ages);
  const ahead = ages.filter((age) => age < -MINUTE_MS).length;
  const read = `${field.path} names no zone and is read as ${field.readAs}`;
  const doubt = (why: string): CheckFinding => warn('times', `${read}, but ${why}`, hintFor(field));
  if (ahead > 0) {
    const minutes = Math.ceil(-youngest / MINUTE_MS);
    return doubt(`by the service's clock ${ahead} of them are still to come, by up to ${minutes} minutes`);
  }
  const quarters = Math.round(youngest / QUARTER_MS);
  const rest = youngest - quarters * QUARTER_MS;
  const isLate =
    isUpdated && quarters > 0 && youngest <= MAX_UTC_OFFSET_MS && rest <= MAX_AGE_MS && rest >= -MAX_SKEW_MS;
  const behind = formatUtcOffset(-quarters * QUARTER_MS);
  return isLate ? doubt(`the newest stands ${behind} from the service's clock, to the second: maybe it is new`) : null;
}

function hintFor({ path }: LocalField): string {
  return `name the zone of the service in the profile, as \`times: { ${path}: Europe/Zurich }\`, or a fixed offset such as +02:00 where its clocks never change`;
}

/** `+02:00`. */
export function formatUtcOffset(ms: number): string {
  const minutes = Math.abs(ms) / MINUTE_MS;
  return `${ms < 0 ? '-' : '+'}${twoDigits(Math.floor(minutes / 60))}:${twoDigits(minutes % 60)}`;
}

function twoDigits(count: number): string {
  return String(count).padStart(2, '0');
}
