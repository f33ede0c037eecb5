// Finds the id of records, and how one record is fetched by it. Example: all posts have another `id`, and `/posts/7`
// returns the listed post 7: the profile gets `id: id` and `item: /posts/{id}`.
import { judgeRecord } from '../checks/item.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { isExact } from '../rows/json/parse-json.ts';
import { fieldAt, isObject, unwrapRecord } from '../rows/records/as-record.ts';
import { differenceText } from '../rows/records/record-difference.ts';
import { selectRecord } from '../rows/records/select-records.ts';
import { fieldPaths, valuesAt } from './fields.ts';
import { describeResponse, isRefusal, isUsable, type ProbeResponse } from './probe-client.ts';
import { type ProbedListing, recordKeyText } from './probed-listing.ts';
import { joinPath } from './record-lists.ts';
import { ID_NAMES, ITEM_PATHS, OTHER_ID } from './vocabulary.ts';

/** Other names of ids than those of the vocabulary; a name of a usual one is known even from a single record. */
const ENDS_LIKE_ID = /(?:^|[._])(?:uu|gu|u)?id$|[a-z](?:Id|ID|Uid|UUID)$|_key$/;
/** Candidates for the id by which single records are requested. */
const MAX_IDS = 3;
const SURE_RANK = 75;
/** Statuses that say that a record does not exist. */
const GONE: ReadonlySet<number> = new Set([404, 410]);

/** Fields that every record has and no two share, the likeliest first; no links to other records, no texts or times. */
export function idCandidates(records: readonly JsonObject[], name: string): string[] {
  if (records.length === 0) return [];
  const paths = fieldPaths(records);
  // The first field is likelier the record's own than one that ends like an id.
  const rank = (path: string): number =>
    Math.max(rankId(path, name), OTHER_ID.test(path) ? (path === paths[0] ? 45 : 5) : 0);
  return paths
    .filter((path) => rank(path) > 0 && isUnique(valuesAt(records, path)))
    .toSorted((a, b) => rank(b) - rank(a));
}

function isUnique(values: readonly (JsonValue | undefined)[]): boolean {
  const keys = values.map((value) => {
    if (typeof value === 'string') return value === '' || value.length > 300 ? null : value;
    return Number.isInteger(value) || isExact(value) ? JSON.stringify(value) : null;
  });
  return keys.every((key) => key !== null) && new Set(keys).size === keys.length;
}

function rankId(path: string, name: string): number {
  const at = ID_NAMES.indexOf(path.toLowerCase());
  if (at !== -1) return 110 - at * 2;
  const singular = name.replace(/ies$/, 'y').replace(/s$/, '');
  const last = path.split('.').at(-1) ?? '';
  // Within an object it is mostly the id of another record.
  if (new RegExp(`^${singular}_?id$`, 'i').test(last)) return 88;
  const inner = /^(?:attributes|fields|_source|properties|data)\.(.*)$/.exec(path)?.[1];
  if (inner !== undefined && ID_NAMES.includes(inner.toLowerCase())) return 50;
  return ENDS_LIKE_ID.test(path) ? (path.includes('.') ? 10 : 40) : 0;
}

/** Finds the field that identifies a record; `probeItem` may replace it by another of the candidates, which it returns. */
export function probeId(listing: ProbedListing): string[] {
  const { findings, records, conventions } = listing;
  const candidates = idCandidates(records, listing.name).toSorted(
    (a, b) => Number(b === conventions.item?.id) - Number(a === conventions.item?.id),
  );
  const [first] = candidates;
  listing.id = first ?? '';
  if (first === undefined) {
    const why = records.length === 0 ? 'the listing is empty' : 'no field is there in every record and unique';
    findings.guessed(['id'], 'id', why);
  } else if (records.length > 1 || rankId(first, listing.name) >= SURE_RANK) {
    // If two records share it, the first run says so.
    findings.proved(['id'], first, `in all ${records.length} records, no two alike`);
  } else findings.guessed(['id'], first, 'there is only one record');
  return candidates;
}

/** Finds how one record is fetched individually, by which id, and the response for one that does not exist. */
export async function probeItem(listing: ProbedListing, ids: readonly string[]): Promise<void> {
  const { findings, records, conventions } = listing;
  const [sample] = records;
  if (sample === undefined || ids.length === 0) {
    return findings.guessed(['item'], null, 'there is no record to ask for');
  }
  const tried = ids.slice(0, MAX_IDS);
  const found = await findItem(listing, tried, sample);
  if (found === null) {
    return findings.proved(['item'], null, `no single record at ${listing.path}/{id}, by ${tried.join(', ')}`);
  }
  const { id, suffix, record, value, response } = found;
  if (id !== listing.id) {
    findings.proved(['id'], id, `unique, and a record is read alone by it; not by ${listing.id}`);
    listing.id = id;
  }
  conventions.item = { suffix, id, record };
  const judged = judgeRecord(sample, value);
  const differences = judged.is === 'same' ? '' : differenceText(judged.differences);
  if (judged.is === 'other') {
    const why = `${describeResponse(response)}, another record than the listed one: ${differences}`;
    return findings.proved(['item'], null, why);
  }
  const further = differences === '' ? '' : `, and further fields: ${differences}`;
  const evidence = `${describeResponse(response)}, the listed record with the same fields and values${further}`;
  findings.proved(['item'], itemPath(listing, suffix), evidence);
  if (record !== '') findings.proved(['item_record'], record, 'the record stands there in that answer');
  await probeMissing(listing, suffix, fieldAt(sample, id));
}

async function findItem(listing: ProbedListing, ids: readonly string[], sample: JsonObject) {
  for (const [at, id] of ids.entries()) {
    const value = fieldAt(sample, id) ?? '';
    // The usual paths are tried with the likeliest id, the likeliest of them with the others.
    for (const suffix of itemSuffixes(listing, typeof value === 'string').slice(0, at === 0 ? undefined : 1)) {
      const response = await requestItem(listing, suffix, typeof value === 'string' ? value : JSON.stringify(value));
      const found = isUsable(response) ? locateRecord(response, sample, id, listing) : null;
      if (found !== null) return { id, suffix, response, ...found };
    }
  }
  return null;
}

function requestItem(listing: ProbedListing, suffix: string, id: string): Promise<ProbeResponse> {
  const path = itemPath(listing, suffix).replace('{id}', encodeURIComponent(id));
  return listing.client.get({ path, query: listing.query });
}

function itemPath({ path, item }: ProbedListing, suffix: string): string {
  return item ?? path.replace(/\/$|\.json$/, '') + suffix;
}

/** Ends of paths that may lead to a record, the likeliest first. */
function itemSuffixes({ conventions, path, item, first }: ProbedListing, isText: boolean): string[] {
  if (item !== undefined) return [''];
  if (conventions.item !== null) return [conventions.item.suffix];
  const isOdata = /odata/i.test(`${Object.keys(first.headers).join(' ')} ${Object.keys(Object(first.json)).join(' ')}`);
  const rank = (suffix: string): number =>
    Number(suffix.startsWith('(') === isOdata) + Number(path.endsWith('/') && suffix.endsWith('/'));
  const fitting = ITEM_PATHS.filter((suffix) => !suffix.startsWith('(') || suffix.includes("'") === isText);
  return fitting.toSorted((a, b) => rank(b) - rank(a)).filter((suffix) => isOdata || !suffix.startsWith('('));
}

/** The object of a response that has the sample's id and most of its fields, at a path that a profile can name. */
function locateRecord(
  { bytes, json = null }: ProbeResponse,
  sample: JsonObject,
  id: string,
  { unwrap }: ProbedListing,
): { record: string; value: JsonObject } | null {
  const wanted = Object.keys(sample);
  for (const { path, object } of objectsIn(json, '', 0)) {
    const value = unwrapRecord(object, unwrap);
    if (!isObject(value) || recordKeyText(value, id) !== recordKeyText(sample, id)) continue;
    const shared = wanted.filter((key) => Object.hasOwn(value, key)).length;
    if (shared >= wanted.length / 2 && selectRecord(bytes, json, path) !== null) return { record: path, value };
  }
  return null;
}

/** Objects of a body, itself included; also the only entry of a list. */
function* objectsIn(value: JsonValue, path: string, level: number): Generator<{ path: string; object: JsonObject }> {
  if (isObject(value)) {
    yield { path, object: value };
    for (const [key, below] of level < 2 ? Object.entries(value) : []) {
      if (!key.includes('.')) yield* objectsIn(below, joinPath(path, key), level + 1);
    }
  } else if (Array.isArray(value) && value.length === 1) yield* objectsIn(value[0] ?? null, `${path}[0]`, level + 1);
}

/** What the service returns for an id like this one that no record has. */
async function probeMissing(listing: ProbedListing, suffix: string, id: JsonValue | undefined): Promise<void> {
  const { findings, conventions } = listing;
  let evidence = 'as in the resource before';
  if (conventions.gone === null) {
    const response = await requestItem(listing, suffix, missingId(id));
    evidence = `an id that no record has: ${describeResponse(response)}`;
    if (!isRefusal(response)) {
      return findings.guessed(['item'], null, `${evidence}, which does not say that it is gone`);
    }
    conventions.gone = response.status;
  }
  if (!GONE.has(conventions.gone)) findings.proved(['gone', 'status'], [conventions.gone], evidence);
}

/** Another id of the same form: a number far ahead, or a text with other digits at its end. */
function missingId(id: JsonValue | undefined): string {
  if (typeof id !== 'string') return String(Number(id ?? 1) + 987_654_321);
  const end = id.slice(-6);
  const others = end
    .replaceAll(/\d/g, (digit) => String(9 - Number(digit)))
    .replaceAll(/[a-f]/g, (letter) => 'fedcba'.charAt('abcdef'.indexOf(letter)));
  return others === end ? `${id}zz` : id.slice(0, -6) + others;
}
