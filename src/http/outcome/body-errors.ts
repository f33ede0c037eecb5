import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import type { Seen } from './outcome-row.ts';

/** Names under which services say that an answer leaves something out: GitHub's search, Elasticsearch, GraphQL gateways. */
const LEFT_OUT = /^(?:(?:is_?)?(?:partial|incomplete)(?:_?results?)?|timed_?out)$/i;

/**
 * The error that a body carries at its top, also beside records, as text; empty if there is none. A service that could
 * ask only some of its parts gives what those have, with a success by status.
 */
export function errorIn({ json, isRecord }: Pick<Seen, 'json' | 'isRecord'>): string {
  if (!isObject(json) || isRecord) return '';
  const said = [json['error'], json['errors']].filter((value) => value !== undefined && isSaid(value));
  return said.map((value) => searchableText(value ?? null)).join(' ');
}

/**
 * The path of the field by which a body says of itself that it is not whole: at its top, in `meta`, or by shards that
 * failed; empty if none does.
 */
export function partialSignIn({ json, isRecord }: Pick<Seen, 'json' | 'isRecord'>): string {
  if (!isObject(json) || isRecord) return '';
  const { meta, _shards: shards } = json;
  if (isObject(shards) && typeof shards['failed'] === 'number' && shards['failed'] > 0) return '_shards.failed';
  const inMeta = isObject(meta) ? leftOutKey(meta) : undefined;
  return leftOutKey(json) ?? (inMeta === undefined ? '' : `meta.${inMeta}`);
}

function leftOutKey(object: JsonObject): string | undefined {
  return Object.keys(object).find((key) => object[key] === true && LEFT_OUT.test(key));
}

/** `{ code: 0, message: '' }` says as little as null does. */
function isSaid(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(isAnything);
  return isObject(value) ? Object.values(value).some(isAnything) : isAnything(value);
}

function isAnything(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return value !== null && value !== false && value !== '' && value !== 0;
}

/** The text that a rule looks for words in; `…` stands for a value too deep to be written. */
export function searchableText(value: JsonValue): string {
  try {
    return typeof value === 'string' ? value : JSON.stringify(value);
  } catch {
    return '…';
  }
}
