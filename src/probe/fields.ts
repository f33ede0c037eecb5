// Experiments about fields: times of change and their zones, marks of deleted records, hidden records. Example:
// `updated_at` is a time in all posts, never before `created_at` and none in the future: `updated: updated_at`.
import { MAX_UTC_OFFSET_MS, misreadTimes, UTC_NAME } from '../checks/times.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { LOCAL } from '../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../rows/columns/cells.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { describeResponse, type ProbeResponse } from './probe-client.ts';
import { type ProbedListing, requestPage } from './probed-listing.ts';
import { valuesIn } from './record-lists.ts';
import { countsIn } from './response-signs.ts';
import { ACTOR, CREATED, DELETED, DELETED_STATES, STATUS, UPDATED, VIEWS } from './vocabulary.ts';

/** The clocks of a service's machines may differ by this much. */
const SKEW_MS = 60_000;

/** Paths of the fields of records, those of objects in them included: `id`, `sys.id`. */
export function fieldPaths(records: readonly JsonObject[], levels = 2): string[] {
  const values = records.slice(0, 100).flatMap((record) => Array.from(valuesIn(record, levels)));
  return [...new Set(values.map(({ path }) => path))];
}

/** The values of a field, in the order of the records; undefined where it is missing. */
export function valuesAt(records: readonly JsonObject[], path: string): (JsonValue | undefined)[] {
  return records.map((record) => fieldAt(record, path));
}

/** Epoch milliseconds of the first of several fields that has a time. */
export function changeTime(record: JsonObject, paths: readonly string[]): number | null {
  return paths.map((path) => parseTime(fieldAt(record, path))).find((time) => time !== null) ?? null;
}

/** Epoch milliseconds of a time as services write it; null for any other value. */
function parseTime(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value > 5e8 ? (parseInstant(value)?.epochMs ?? null) : null;
  if (typeof value !== 'string' || value.length < 8) return null;
  return parseInstant(/^\d{9,16}$/.test(value) ? Number(value) : value)?.epochMs ?? null;
}

type TimeField = ReturnType<typeof timeFields>[number];

/** Fields that hold times in all records that have them; `isLocal`: none names its zone. */
function timeFields(records: readonly JsonObject[]) {
  return fieldPaths(records).flatMap((path) => {
    const values = valuesAt(records, path);
    const present = values.filter((value) => value !== null && value !== undefined && value !== '');
    if (ACTOR.test(path) || present.length === 0 || !present.every((value) => parseTime(value) !== null)) return [];
    const isLocal = present.every((value) => typeof value === 'string' && isLocalTime(value)) && !UTC_NAME.test(path);
    return [{ path, missing: values.length - present.length, isLocal }];
  });
}

/**
 * Finds the times of change and of creation. Those without a zone are read as UTC, unless another field of the same records
 * shows that they are local.
 */
export async function probeTimes(listing: ProbedListing): Promise<void> {
  const { findings, records, conventions, notes, name } = listing;
  if (records.length === 0) return findings.guessed(['updated'], null, 'the listing is empty');
  const fields = timeFields(records);
  const updated = likeliest(fields.filter(({ path }) => UPDATED.test(path)));
  const created = likeliest(fields.filter(({ path }) => CREATED.test(path) && !UPDATED.test(path)));
  const replacement = created?.missing === 0 ? [created.path] : [];
  if (updated === undefined) return probeUnchanged(listing, replacement);
  listing.updated = [updated.path, ...(updated.missing > 0 ? replacement : [])];
  const value = listing.updated.length === 1 ? updated.path : listing.updated;
  const doubt = doubtAbout(listing, created?.path ?? null);
  if (doubt === null) {
    conventions.updated = listing.updated;
    const missing = updated.missing === 0 ? '' : `, null in ${updated.missing} of ${records.length}`;
    const order = created === undefined ? '' : `, never before ${created.path}`;
    const count = `${records.length - updated.missing} of ${records.length} records${missing}`;
    findings.proved(['updated'], value, `a time in ${count}${order}, none later than the answer's Date`);
  } else findings.guessed(['updated'], value, doubt);
  for (const { path, twin, offsets } of misreadTimes(records, { times: {} }))
    findings.proved(['times', path], LOCAL, `stands ${offsets} from ${twin}`);
  // Nothing is missed by it: a filter takes the same times that the records have.
  const unzoned = fields.filter(({ path, isLocal }) => isLocal && listing.updated.includes(path));
  for (const { path } of unzoned) notes.push(`${path} of ${name} names no zone and is read as UTC: else set times`);
}

/** A field that is null in all records may be the time of change, if its name says so: none was changed yet. */
function probeUnchanged(listing: ProbedListing, replacement: readonly string[]): void {
  const { findings, records, conventions } = listing;
  const unset = fieldPaths(records, 1).filter(
    (path) => UPDATED.test(path) && !ACTOR.test(path) && valuesAt(records, path).every((value) => value === null),
  );
  const field = unset.find((path) => path === conventions.updated[0]) ?? unset[0];
  if (field === undefined) return findings.proved(['updated'], null, 'no field is a time and named as one of changes');
  const why = `null in all ${records.length} records`;
  if (replacement.length === 0) return findings.guessed(['updated'], null, `${field} is ${why}`);
  listing.updated = [field, ...replacement];
  if (conventions.updated.join() === listing.updated.join()) {
    findings.proved(['updated'], listing.updated, `${why}; as in the resource before`);
  } else findings.guessed(['updated'], listing.updated, why);
}

/** The field that most records have; among equals, one that names its zone, on the highest level. */
function likeliest(fields: readonly TimeField[]): TimeField | undefined {
  const rank = ({ path, missing, isLocal }: TimeField): number =>
    missing * 100 + (isLocal ? 10 : 0) + path.split('.').length * 3 + (/updated|modified/i.test(path) ? 0 : 2);
  return fields.toSorted((a, b) => rank(a) - rank(b))[0];
}

/** Why the field may not be the time of change; null if nothing speaks against it. */
function doubtAbout({ records, updated, first }: ProbedListing, created: string | null): string | null {
  const latest = (first.serverDate ?? Infinity) + SKEW_MS + MAX_UTC_OFFSET_MS;
  const times = records.map((record) => ({
    changed: changeTime(record, updated) ?? NaN,
    earliest: created === null ? NaN : (changeTime(record, [created]) ?? NaN) - MAX_UTC_OFFSET_MS,
  }));
  const future = times.filter(({ changed }) => changed > latest).length;
  if (future > 0) return `${future} of ${records.length} lie in the future`;
  const early = times.filter(({ changed, earliest }) => changed < earliest).length;
  if (early > 0) return `in ${early} of ${records.length} records it is earlier than ${created}`;
  const without = times.filter(({ changed }) => Number.isNaN(changed)).length;
  return without > 0 ? `${without} of ${records.length} records have none` : null;
}

/**
 * Fields by which listed records say that they are deleted. A field with such a name counts even if no record has it set
 * so far: otherwise a record that is deleted later would stay live. Sends no request.
 */
export function probeDeleted({ records, findings }: ProbedListing): void {
  const paths = fieldPaths(records, 1);
  const count = (path: string): number => valuesAt(records, path).filter(Boolean).length;
  const [mark] = paths.filter((path) => DELETED.test(path)).toSorted((a, b) => count(b) - count(a));
  if (mark !== undefined) {
    const evidence = `named so, and set in ${count(mark)} of ${records.length} listed records`;
    return findings.proved(['deleted', 'field'], mark, evidence);
  }
  const path = paths.find(
    (each) => STATUS.test(each) && valuesAt(records, each).every((state) => typeof state === 'string'),
  );
  if (path === undefined) return;
  const seen = DELETED_STATES.filter((state) => valuesAt(records, path).includes(state));
  const evidence = `${seen.length === 0 ? 'no' : 'some'} listed records are ${DELETED_STATES.join(' or ')} there`;
  findings.proved(['deleted', 'field'], path, evidence);
  findings.proved(['deleted', 'in'], DELETED_STATES, evidence);
}

/** Whether a listing of records with a state has more than it shows by default, such as drafts, by its total. */
export async function probeView(listing: ProbedListing): Promise<void> {
  const { client, recordsPath, findings } = listing;
  const totalIn = (response: ProbeResponse): number => Math.max(...countsIn(response, recordsPath).stated);
  const total = totalIn(listing.first);
  if (total === -Infinity || client.form.scheme['type'] === 'none') return;
  const states = new Set(fieldPaths(listing.records, 1));
  for (const view of VIEWS.filter((each) => states.has(Object.keys(each)[0] ?? ''))) {
    const { response, records } = await requestPage(listing, view);
    const wider = totalIn(response);
    if (records === null || wider <= total) continue;
    const query = { ...listing.query, ...view };
    Object.assign(listing, { query, first: response, records, total: wider });
    return findings.proved(['query'], query, `${describeResponse(response)}, ${wider} records instead of ${total}`);
  }
}
