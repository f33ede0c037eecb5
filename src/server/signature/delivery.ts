import { createHash } from 'node:crypto';
import type { DeliveryField, DeliveryFieldKind } from '../../config/profile/basic-fields.ts';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../rows/json/exact-number.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/field-at.ts';

/** A webhook request as it came, before anything in it is believed. */
export interface Delivery {
  method: string;
  /** The target as it was sent: path and query. */
  path: string;
  /** By lower-case name; a list if one was sent several times. One character is one byte, as Node reads them. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  body: Buffer;
}

/**
 * Why a delivery is not believed: for our own log and metrics, never for the sender. What is sent several times
 * counts as not there.
 */
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
      /** Distinguishes this delivery from others; `sha256:<hex>` of the body if the sender sends nothing usable. */
      deliveryId: string;
      idFrom: 'sent' | 'body';
      /** Epoch milliseconds; null if the scheme signs no time. */
      sentAt: number | null;
    }
  | { ok: false; reason: SignatureRefusal };

/** Named parts of a signature header; one that stands there twice is not among them. */
export type Parts = ReadonlyMap<string, string>;

type Reader = (name: string, delivery: Delivery, parts: Parts) => string | null;

const READERS: Readonly<Record<DeliveryFieldKind, Reader>> = {
  header: (name, delivery) => onlyHeader(delivery, name),
  query: (name, delivery) => onlyParameter(delivery, name),
  part: (name, _delivery, parts) => parts.get(name) ?? null,
  json: (name, { body }) => jsonText(body, name),
  sha256: (_name, { body }) => `sha256:${createHash('sha256').update(body).digest('hex')}`,
};

/** The text at a place; null if there is none, or not exactly one. */
export function textAt({ from, name }: DeliveryField, delivery: Delivery, parts: Parts): string | null {
  return READERS[from](name, delivery, parts);
}

/** The one value of a header; null if it was not sent once. */
export function onlyHeader({ headers }: Delivery, name: string): string | null {
  const given = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (typeof given !== 'object') return given ?? null;
  return given.length === 1 ? (given[0] ?? null) : null;
}

/** The one value of a query parameter, percent-decoded; null if it is not there once, or malformed. */
function onlyParameter({ path }: Delivery, name: string): string | null {
  const found = queryOf(path)
    .split(/[?&]/)
    .filter((pair) => pair.startsWith(`${name}=`));
  const [pair] = found;
  return pair === undefined || found.length > 1 ? null : percentDecoded(pair.slice(name.length + 1));
}

/** The query with its question mark; empty if there is none. */
export function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? '' : target.slice(mark);
}

/** The text behind `%41`, as strict UTF-8; null if it is malformed. */
export function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** The body as text, its byte order mark kept; null if it is no UTF-8. */
export function utf8Text(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return null;
  }
}

/** A text or a number in the JSON body; null if the body is no JSON or has neither there. */
function jsonText(body: Buffer, path: string): string | null {
  const value = bodyField(body, path);
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  return value !== undefined && isExact(value) ? value.rawJSON : null;
}

function bodyField(body: Buffer, path: string): JsonValue | undefined {
  const text = utf8Text(body);
  if (text === null) return undefined;
  try {
    return fieldAt(parseJson(text.replace(/^\uFEFF/, '')), path);
  } catch {
    // Whatever a stranger sends as JSON: there is no text at this place in it.
    return undefined;
  }
}

type SignedTime = NonNullable<SignatureScheme['timestamp']>;

const SECONDS = /^[1-9]\d{0,10}$/;
const MILLISECONDS = /^[1-9]\d{0,13}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Units of a signed time, with epoch milliseconds on our side. Nothing else is a time: no sign, no point, no blanks. */
const UNITS: Readonly<
  Record<SignedTime['unit'], { pattern: RegExp; read: (text: string) => number; write: (ms: number) => string }>
> = {
  s: { pattern: SECONDS, read: (text) => Number(text) * 1_000, write: (ms) => String(Math.floor(ms / 1_000)) },
  ms: { pattern: MILLISECONDS, read: Number, write: String },
  iso: { pattern: ISO, read: (text) => Date.parse(text), write: (ms) => new Date(ms).toISOString() },
};

/**
 * The text of the time that was signed, at the place in the delivery that the scheme names; '' if the scheme signs none,
 * null if the delivery has none.
 */
export function timestampIn(delivery: Delivery, { timestamp }: SignatureScheme, parts: Parts): string | null {
  return timestamp === null ? '' : textAt(timestamp.from, delivery, parts);
}

/** Epoch milliseconds of the time that was signed, or why it does not count. Both edges of the tolerance still do. */
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

/** The time as the sender would write it. */
export function writeTimestamp(ms: number, unit: SignedTime['unit']): string {
  return UNITS[unit].write(ms);
}

/** The scheme with every `{family}` in its header names replaced. */
export function schemeInFamily(scheme: SignatureScheme, family: string): SignatureScheme {
  const named = <K extends DeliveryFieldKind>(place: DeliveryField<K>): DeliveryField<K> => ({
    ...place,
    name: place.name.replaceAll('{family}', family.toLowerCase()),
  });
  const { value, timestamp, signed_headers, body_hash } = scheme;
  return {
    ...scheme,
    families: [family],
    value: { ...value, from: named(value.from) },
    timestamp: timestamp && { ...timestamp, from: named(timestamp.from) },
    id: named(scheme.id),
    signed_headers: signed_headers && { ...signed_headers, from: named(signed_headers.from) },
    body_hash: body_hash && named(body_hash),
  };
}
