import { decodeText } from '../../http/body/decode-text.ts';
import { messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import { visibleText } from '../../model/visible-text.ts';
import { fieldAt, isObject } from '../../shape/records/field-at.ts';
import { limitRejection } from '../../shape/records/record-limits.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { WebhookProfile } from '../../source/webhooks.ts';
import type { DeliveryRow } from '../../warehouse/inbox.ts';

/** The content of one event. It is only a hint: the record itself is read from the service. */
export interface EventTarget {
  /** The service's word for what happened, cut to 200 characters; null if it says none. */
  kind: string | null;
  /** The profile's name of it. */
  resource: string;
  /** As `shape/records/record-key.ts` makes it; null if the event names no record: then the resource has to be walked. */
  key: string | null;
  /** The record's time of change after the event, in epoch milliseconds; null if it does not say. */
  updated: number | null;
  isDelete: boolean;
}

/**
 * The content of a delivery: `read` with at least one target; `ignored` if nothing in it concerns a resource of ours;
 * `dead` if its body cannot be understood at all.
 */
export type DeliveryContent =
  | { is: 'read'; targets: EventTarget[] }
  | { is: 'ignored'; reason: string; kind: string | null }
  | { is: 'dead'; reason: string };

/** The places of things in an event by the profile, and the resources that are synced, by name. */
export interface EventRules {
  webhooks: WebhookProfile;
  resources: Readonly<Record<string, Pick<ResourceProfile, 'id' | 'updated' | 'times'>>>;
}

type EventPlace = WebhookProfile['kind'];

/** One event within its delivery. */
interface Occasion {
  event: JsonValue;
  headers: JsonValue;
}

/** Longest text from a delivery that is kept beside it or quoted. */
const MOST_SHOWN = 200;

/** Reads a stored delivery by the profile's rules. Never throws for what came from outside. */
export function readDelivery(delivery: Pick<DeliveryRow, 'headers' | 'body'>, rules: EventRules): DeliveryContent {
  const body = bodyOf(delivery.body);
  if ('reason' in body) return { is: 'dead', reason: body.reason };
  const events = eventsIn(body.value, rules.webhooks.events);
  if (events === null) {
    return { is: 'ignored', kind: null, reason: `the body has no list of events at "${rules.webhooks.events}"` };
  }
  // Our own text, written by the receiver: anything else is a bug, or a damaged file.
  const headers = parseJson(delivery.headers);
  const read = events.map((event) => readEvent({ event, headers }, rules));
  const targets = read.filter((one) => 'resource' in one);
  if (targets.length > 0) return { is: 'read', targets };
  const first = read.find((one) => 'reason' in one) ?? { kind: null, reason: 'the list of events is empty' };
  return { is: 'ignored', ...first };
}

/** Strictly: a body that is changed by reading it would say something else than was signed. */
function bodyOf(bytes: Uint8Array): { value: JsonValue } | { reason: string } {
  try {
    const { text } = decodeText(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), '');
    const value = parseJson(text);
    // The limits are meant for records: what is no object is looked at as the only field of one.
    const refused = limitRejection(isObject(value) ? value : { body: value }, bytes.byteLength);
    return refused === null ? { value } : { reason: `the body is ${refused.detail}` };
  } catch (error) {
    return { reason: messageOf(error) };
  }
}

function eventsIn(body: JsonValue, path: string | null): JsonValue[] | null {
  if (path === null) return [body];
  const events = fieldAt(body, path);
  return Array.isArray(events) ? events : null;
}

function readEvent(occasion: Occasion, rules: EventRules): EventTarget | { kind: string | null; reason: string } {
  const { webhooks, resources } = rules;
  const word = textAt(occasion, webhooks.kind);
  const kind = word === null ? null : shown(word);
  const found = resourceOf(occasion, word ?? '', webhooks);
  if (found === null)
    return { kind, reason: `nothing says which resource an event of the kind ${quoted(word)} is about` };
  const profile = Object.hasOwn(resources, found) ? resources[found] : undefined;
  if (profile === undefined) return { kind, reason: `${quoted(found)} is no resource that is synced` };
  return {
    kind,
    resource: found,
    key: keyOf(occasion, webhooks.id, profile.id),
    updated: timeAt(occasion, webhooks.updated, updatedZone(profile)),
    isDelete: webhooks.deleted.some((pattern) => fits(pattern, word ?? '')),
  };
}

/** By the event's kind if the profile has a pattern for it, else by the service's word for the resource. */
function resourceOf(
  occasion: Occasion,
  kind: string,
  { kinds, resource, resource_names }: WebhookProfile,
): string | null {
  const byKind = Object.entries(kinds).find(([pattern]) => fits(pattern, kind));
  if (byKind !== undefined) return byKind[1];
  const word = resource === null ? null : textAt(occasion, resource);
  if (word === null) return null;
  return Object.hasOwn(resource_names, word) ? (resource_names[word] ?? word) : word;
}

/** A key of several fields is read from the object at the place of the id. */
function keyOf(occasion: Occasion, place: EventPlace, id: ResourceProfile['id']): string | null {
  const value = valueAt(occasion, place);
  if (value === undefined) return null;
  const found = recordKey(value, typeof id === 'string' ? '' : id);
  return 'key' in found ? found.key : null;
}

/** An event writes the time of change as the record does: a local one is one of the same zone. */
function timeAt(occasion: Occasion, place: EventPlace | null, zone: TimeZone | null): number | null {
  const value = place === null ? undefined : valueAt(occasion, place);
  // A header has no numbers.
  const moment =
    place?.from === 'header' && typeof value === 'string' && /^\d{1,17}$/.test(value) ? Number(value) : value;
  return parseInstant(moment, zone)?.epochMs ?? null;
}

function textAt(occasion: Occasion, place: EventPlace): string | null {
  const value = valueAt(occasion, place);
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' && value !== '' ? value : null;
}

function valueAt({ event, headers }: Occasion, { from, name }: EventPlace): JsonValue | undefined {
  if (from === 'json') return fieldAt(event, name);
  return isObject(headers) && Object.hasOwn(headers, name) ? headers[name] : undefined;
}

/** True if the text is the pattern, in which a star stands for any text. Linear, whatever the text is. */
function fits(pattern: string, text: string): boolean {
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

function quoted(word: string | null): string {
  return word === null ? '(none)' : `"${shown(word)}"`;
}

/** Short, on one line, and fit for every store. */
function shown(text: string): string {
  return visibleText(text.slice(0, MOST_SHOWN).toWellFormed());
}
