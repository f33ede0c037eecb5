import { createHash } from 'node:crypto';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import type { DeliveryField, DeliveryFieldKind } from '../../source/delivery-field.ts';
import type { Delivery } from './delivery.ts';

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
