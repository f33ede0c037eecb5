import { FURTHEST_MS, offsetText, QUARTER_MS, SAYS_UTC, stemOf } from '../checks/times.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { timeZone } from '../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../rows/columns/timestamps.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { isRefusal, type QueryParams, said } from './asker.ts';
import { fieldPaths, valuesAt } from './body.ts';
import { countsIn, requestPage } from './page-size.ts';
import type { Subject } from './profile.ts';

const SAYS_UPDATED = /updat|modif|chang|edit|revis|(?:^|[._])(?:mtime|lastmod)/i;
const SAYS_CREATED = /creat|insert|added|publish|(?:^|[._])(?:ctime|date|date_?gmt|uploaded_?(?:at|on))$/i;
const SAYS_ACTOR = /by(?:[._]|$)|[a-z]By(?:$|[A-Z])|user|author|count|version/;
/** Clocks of two machines of one service may differ by so much. */
const SKEW_MS = 60_000;

/** A field with times, as the records have it. */
interface TimeField {
  path: string;
  /** Records without it. */
  missing: number;
  isLocal: boolean;
}

/** The time of a field's value as a service writes it; null for any other text. */
function momentAt(record: JsonObject, path: string): number | null {
  return momentOf(fieldAt(record, path));
}

/** Epoch milliseconds of the first of several fields that is not null. */
export function changeOf(record: JsonObject, paths: readonly string[]): number | null {
  for (const path of paths) {
    const moment = momentAt(record, path);
    if (moment !== null) return moment;
  }
  return null;
}

function momentOf(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value > 5e8 ? (parseInstant(value)?.epochMs ?? null) : null;
  if (typeof value !== 'string' || value.length < 8) return null;
  return parseInstant(/^\d{9,16}$/.test(value) ? Number(value) : value)?.epochMs ?? null;
}

/** Fields that hold times in all records that have them. */
function timeFields(records: readonly JsonObject[]): TimeField[] {
  return fieldPaths(records).flatMap((path) => {
    const values = valuesAt(records, path);
    const present = values.filter((value) => value !== null && value !== undefined && value !== '');
    if (present.length === 0 || !present.every((value) => momentOf(value) !== null)) return [];
    const isLocal = present.every((value) => typeof value === 'string' && isLocalTime(value)) && !SAYS_UTC.test(path);
    return [{ path, missing: values.length - present.length, isLocal }];
  });
}

/** Finds the times of change and of creation, and the zone of those that name none. */
export async function probeTimes(subject: Subject): Promise<void> {
  const { findings, records } = subject;
  const fields = timeFields(records).filter(({ path }) => !SAYS_ACTOR.test(path));
  const updated = likeliest(fields.filter(({ path }) => SAYS_UPDATED.test(path)));
  const created = likeliest(fields.filter(({ path }) => SAYS_CREATED.test(path) && !SAYS_UPDATED.test(path)));
  if (records.length === 0) return findings.guessed(['updated'], null, 'the listing is empty');
  if (updated === undefined) return withoutChanges(subject, created);
  const missing = updated.missing === 0 ? '' : `, null in ${updated.missing} of ${records.length}`;
  const stand = updated.missing > 0 && created !== undefined && created.missing === 0 ? [created.path] : [];
  subject.updated = [updated.path, ...stand];
  const doubt = doubtOf(subject, created);
  const value = stand.length === 0 ? updated.path : subject.updated;
  const against = created === undefined ? '' : `, never before ${created.path}`;
  const evidence = `a time in ${records.length - updated.missing} of ${records.length} records${missing}${against}, none later than the answer's Date`;
  if (doubt === null) {
    subject.conventions.updated = subject.updated;
    findings.proved(['updated'], value, evidence);
  } else findings.guessed(['updated'], value, doubt);
  probeZones(subject, fields);
}

/** A field that is null in all records may be one of changes, if its name says so: none was changed yet. */
function withoutChanges(subject: Subject, created: TimeField | undefined): void {
  const { findings, records, conventions } = subject;
  const untouched = fieldPaths(records, 1).filter(
    (path) =>
      SAYS_UPDATED.test(path) && !SAYS_ACTOR.test(path) && valuesAt(records, path).every((value) => value === null),
  );
  const u = untouched.find((path) => path === conventions.updated[0]) ?? untouched[0];
  if (u === undefined) return findings.proved(['updated'], null, 'no field is a time and named as one of changes');
  const stands = created !== undefined && created.missing === 0;
  subject.updated = stands ? [u, created.path] : [];
  const why = `null in all ${records.length} records`;
  if (!stands) return findings.guessed(['updated'], null, `${u} is ${why}`);
  const isKnown = conventions.updated.join() === subject.updated.join();
  if (isKnown) findings.proved(['updated'], subject.updated, `${why}; as in the resource before`);
  else findings.guessed(['updated'], subject.updated, why);
}

/** The field that most records have; among equals, one that names its zone, on the highest level. */
function likeliest(fields: readonly TimeField[]): TimeField | undefined {
  return fields.toSorted((a, b) => rankOf(a) - rankOf(b))[0];
}

function rankOf({ path, missing, isLocal }: TimeField): number {
  return missing * 100 + (isLocal ? 10 : 0) + path.split('.').length * 3 + (/updated|modified/i.test(path) ? 0 : 2);
}

/** Why the field may be none of changes; null if nothing speaks against it. */
function doubtOf(subject: Subject, created: TimeField | undefined): string | null {
  const { records, updated, first } = subject;
  const now = first.serverDate;
  const future = records.filter(
    (record) => now !== null && (changeOf(record, updated) ?? 0) > now + SKEW_MS + FURTHEST_MS,
  );
  if (future.length > 0) return `${future.length} of ${records.length} lie in the future`;
  const before = records.filter((record) => {
    const at = created === undefined ? null : momentAt(record, created.path);
    const change = changeOf(record, updated);
    return at !== null && change !== null && change < at - FURTHEST_MS;
  });
  if (before.length > 0) return `in ${before.length} of ${records.length} records it is earlier than ${created?.path}`;
  const without = records.filter((record) => changeOf(record, updated) === null).length;
  return without > 0 ? `${without} of ${records.length} records have none` : null;
}

/** The zone of local times, if another field of the same records has the same time with a zone. */
function probeZones(subject: Subject, fields: readonly TimeField[]): void {
  for (const field of fields.filter(({ isLocal }) => isLocal)) {
    const twin = fields.find(({ path }) => path !== field.path && stemOf(path) === stemOf(field.path));
    const pairs = twin === undefined ? [] : pairsOf(subject.records, field.path, twin.path);
    const zone = pairs.length === 0 ? null : zoneFor(pairs);
    if (zone !== null && twin !== undefined) {
      if (zone.name !== 'UTC') {
        const add = zone.isSure ? subject.findings.proved : subject.findings.guessed;
        add(
          ['times', field.path],
          zone.name,
          `against ${twin.path} in ${pairs.length} records${zone.isSure ? '' : '; other zones fit as well'}`,
        );
      }
    } else if (subject.updated.includes(field.path)) {
      const why = 'its times name no zone, and no other field tells the moment';
      subject.findings.guessed(['times', field.path], 'UTC', why);
    }
  }
}

interface Pair {
  local: number;
  moment: number;
}

function pairsOf(records: readonly JsonObject[], local: string, moment: string): Pair[] {
  return records.flatMap((record) => {
    const pair = { local: momentAt(record, local), moment: momentAt(record, moment) };
    return pair.local === null || pair.moment === null ? [] : [{ local: pair.local, moment: pair.moment }];
  });
}

/** Places whose zones are tried where nothing else names one. */
const PLACES = `
  UTC Europe/London Europe/Zurich Europe/Athens America/New_York America/Chicago America/Denver America/Los_Angeles
  America/Sao_Paulo Asia/Kolkata Asia/Shanghai Asia/Tokyo Australia/Sydney Pacific/Auckland`
  .trim()
  .split(/\s+/);

/** A zone in which all local times are their moments; sure if no season is left out. */
function zoneFor(pairs: readonly Pair[]): { name: string; isSure: boolean } | null {
  const gaps = pairs.map(({ local, moment }) => local - moment);
  if (gaps.some((gap) => gap % QUARTER_MS !== 0 || Math.abs(gap) > FURTHEST_MS)) return null;
  if (gaps.every((gap) => gap === 0)) return { name: 'UTC', isSure: true };
  const fits = (name: string): boolean => {
    const zone = timeZone(name);
    return pairs.every(({ local, moment }) => zone.toLocal(moment) === local);
  };
  const place = PLACES.find(fits);
  if (place !== undefined) return { name: place, isSure: new Set(gaps).size > 1 };
  const [gap = 0] = gaps;
  return new Set(gaps).size === 1 ? { name: offsetText(gap), isSure: false } : null;
}

const SAYS_DELETED = /^(?:deleted_?(?:at|on|date)?|is_?deleted|removed_?at|trashed_?at|_deleted|tombstone)$/i;
const STATUS = /^(?:status|state|lifecycle_?state)$/i;
const GONE_STATES = ['trash', 'trashed', 'deleted', 'removed'];

/**
 * Fields by which listed records say that they are deleted. A field with such a name counts even if no record has it set
 * so far: otherwise a record that is deleted later would stay live. Sends no request.
 */
export function probeDeleted({ records, findings }: Subject): void {
  const paths = fieldPaths(records, 1);
  const named = paths.filter((path) => SAYS_DELETED.test(path));
  for (const path of named) {
    const marked = records.filter((record) => isMarked(fieldAt(record, path))).length;
    if (marked === 0) continue;
    return findings.proved(['deleted', 'field'], path, `set in ${marked} of ${records.length} listed records`);
  }
  for (const path of paths.filter((each) => STATUS.test(each))) {
    const states = new Set(valuesAt(records, path));
    const gone = GONE_STATES.filter((state) => states.has(state));
    if (gone.length === 0) continue;
    const evidence = `listed records have ${gone.join(', ')} there`;
    findings.proved(['deleted', 'field'], path, evidence);
    return findings.proved(['deleted', 'in'], gone, evidence);
  }
  const [unset] = named;
  if (unset === undefined) return;
  findings.proved(['deleted', 'field'], unset, `named so, and set in none of ${records.length} listed records`);
}

function isMarked(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && value !== '' && value !== 0;
}

/** Parameters that list what is not published as well. */
const VIEWS: readonly QueryParams[] = [{ status: 'any' }, { status: 'all' }, { state: 'all' }];

/** Whether the listing holds more than it shows by default, by its total. */
export async function probeView(subject: Subject): Promise<void> {
  const { conventions, asker } = subject;
  const total = totalOf(subject, subject.first);
  if (total === null || asker.form.scheme['type'] === 'none' || conventions.view === 'none') return;
  for (const view of conventions.view === null ? VIEWS : [conventions.view]) {
    if (Object.keys(view).some((name) => Object.hasOwn(subject.query, name))) continue;
    const { answer, records } = await requestPage(subject, view);
    if (isRefusal(answer)) break;
    const wider = records === null ? null : totalOf(subject, answer);
    if (records === null || wider === null || wider <= total) continue;
    conventions.view = view;
    subject.query = { ...subject.query, ...view };
    subject.first = answer;
    subject.records = records;
    subject.total = wider;
    subject.findings.proved(['query'], subject.query, `${said(answer)}, ${wider} records instead of ${total}`);
    return;
  }
  conventions.view ??= 'none';
}

function totalOf({ at }: Subject, answer: Subject['first']): number | null {
  const { totals } = countsIn(answer, at);
  return totals.length === 0 ? null : Math.max(...totals.map(({ value }) => value));
}
