// A webhook request as it was received, and reading its fields, times and patterns.
import { createHash } from 'node:crypto';
import type { DeliveryField } from '../../config/profile/delivery-fields.ts';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';

/** A webhook request as it was received, before it is verified. */
export interface Delivery {
  method: string;
  /** The target as it was sent: path and query. */
  path: string;
  /** By lower-case name; a list if one was sent several times. Node decodes each byte as one character. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  body: Buffer;
}

/** For the log and the metrics, never for the sender. A field that is sent several times counts as missing. */
export type SignatureRefusal =
  | 'no_secret'
  | 'no_signature'
  | 'bad_signature_header'
  | 'too_many_signatures'
  | 'no_timestamp'
  | 'no_id'
  | 'bad_content'
  | 'bad_signature'
  | 'bad_timestamp'
  | 'too_old'
  | 'too_new';

export type SignatureVerdict =
  | {
      ok: true;
      /** Identifies this delivery; `sha256:<hex>` of the body if the sender sends no usable id. */
      deliveryId: string;
      idFrom: 'sent' | 'body';
      /** Epoch milliseconds; null if the scheme signs no time. */
      sentAt: number | null;
    }
  | { ok: false; reason: SignatureRefusal };

/** Named parts of a signature header, without those that occur twice. */
export type SignatureParts = ReadonlyMap<string, string>;

export const NO_PARTS: SignatureParts = new Map();

/** Returns the text of a field; null unless the delivery has exactly one. */
export function textAt({ from, name }: DeliveryField, delivery: Delivery, parts: SignatureParts): string | null {
  if (from === 'header') return onlyHeader(delivery, name);
  if (from === 'query') return onlyParameter(delivery, name);
  if (from === 'part') return parts.get(name) ?? null;
  if (from === 'json') return jsonText(delivery.body, name);
  return `sha256:${createHash('sha256').update(delivery.body).digest('hex')}`;
}

/** Returns null unless the header was sent once. */
export function onlyHeader({ headers }: Delivery, name: string): string | null {
  const values = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (typeof values !== 'object') return values ?? null;
  return values.length === 1 ? (values[0] ?? null) : null;
}

/** Returns the percent-decoded value; null unless the parameter was sent once and is well-formed. */
function onlyParameter({ path }: Delivery, name: string): string | null {
  const found = queryOf(path)
    .split(/[?&]/)
    .filter((pair) => pair.startsWith(`${name}=`));
  const [pair] = found;
  if (pair === undefined || found.length > 1) return null;
  try {
    return decodeURIComponent(pair.slice(name.length + 1));
  } catch {
    return null;
  }
}

/** The query with its question mark; empty if there is none. */
export function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? '' : target.slice(mark);
}

/** Returns the text or the number in the JSON body; null if it has none at this path. */
function jsonText(body: Buffer, path: string): string | null {
  try {
    const value = fieldAt(parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body)), path);
    if (typeof value === 'string' || typeof value === 'number') return String(value);
    return value !== undefined && isExact(value) ? value.rawJSON : null;
  } catch {
    return null;
  }
}

type SignedTime = NonNullable<SignatureScheme['timestamp']>;

const SECONDS = /^[1-9]\d{0,10}$/;
const MILLISECONDS = /^[1-9]\d{0,13}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Converts texts to epoch milliseconds, strictly: no sign, no decimal point, no blanks. */
const UNITS: Readonly<Record<SignedTime['unit'], { pattern: RegExp; read: (text: string) => number }>> = {
  s: { pattern: SECONDS, read: (text) => Number(text) * 1_000 },
  ms: { pattern: MILLISECONDS, read: Number },
  iso: { pattern: ISO, read: (text) => Date.parse(text) },
};

/** Returns the signed time as it was sent; '' if the scheme signs none, null if the delivery has none. */
export function timestampIn(delivery: Delivery, { timestamp }: SignatureScheme, parts: SignatureParts): string | null {
  return timestamp === null ? '' : textAt(timestamp.from, delivery, parts);
}

/** Returns the epoch milliseconds of a signed time, or why it is refused. Both edges of the tolerance are accepted. */
export function checkTimestamp(
  text: string,
  { unit, past, future }: SignedTime,
  now: number,
): number | SignatureRefusal {
  const { pattern, read } = UNITS[unit];
  const at = pattern.test(text) ? read(text) : Number.NaN;
  if (Number.isNaN(at)) return 'bad_timestamp';
  if (at < now - past) return 'too_old';
  return at > now + future ? 'too_new' : at;
}

/** Replaces `{family}` in all header names of the scheme. */
export function schemeInFamily(scheme: SignatureScheme, family: string): SignatureScheme {
  const inFamily = (key: string, value: unknown): unknown =>
    key === 'name' && typeof value === 'string' ? value.replaceAll('{family}', family.toLowerCase()) : value;
  const named: SignatureScheme = JSON.parse(JSON.stringify(scheme), inFamily);
  return { ...named, families: [family] };
}

/** Returns true if the text matches a pattern in which `*` matches any text. Takes linear time. */
export function matchesPattern(pattern: string, text: string): boolean {
  const [first = '', ...between] = pattern.split('*');
  const last = between.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of between) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
