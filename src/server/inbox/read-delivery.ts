// Reads a stored delivery by the rules of the profile: which records of which resources it is about. Example: with the rule
// `kinds: { 'post.*': posts }`, the event `{"type": "post.updated", "id": 7}` is about the record 7 of `posts`.
import type { EventField, FieldCondition } from '../../config/profile/delivery-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { WebhookProfile, WebhookRule } from '../../config/profile/signature-scheme.ts';
import { decodeText } from '../../http/outcome/read-answer.ts';
import { EACH_ELEMENT, EACH_MEMBER, isEach, stepsOf } from '../../model/body-path.ts';
import { messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import { visibleText } from '../../model/visible-text.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt, isObject, limitRejection, stepInto } from '../../rows/records/as-record.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import { matchesPattern } from '../signature/delivery.ts';

/** What an event is about. It is only a hint: the record itself is read from the service. */
export interface EventTarget {
  /** The service's word for what happened, cut to 200 characters; null if the event has none. */
  kind: string | null;
  /** Its name in the profile. */
  resource: string;
  /** As `recordKey` makes it; null if the event names no record: then the resource has to be scanned. */
  key: string | null;
  /** Epoch milliseconds of the change; null if the event has none. */
  updated: number | null;
  isDelete: boolean;
}

/** The result for an event that concerns no synced resource. */
interface IgnoredEvent {
  kind: string | null;
  reason: string;
}

/** How the profile reads events, and the synced resources by name. */
export interface EventRules {
  webhooks: WebhookProfile;
  resources: Readonly<Record<string, Pick<ResourceProfile, 'id' | 'updated' | 'times'>>>;
}

/** `read` with at least one target; `ignored` if no synced resource is concerned; `dead` if the body cannot be parsed. */
export type DeliveryContent =
  | { is: 'read'; targets: EventTarget[] }
  | { is: 'ignored'; reason: string; kind: string | null }
  | { is: 'dead'; reason: string };

/** One event and the headers of its delivery. */
interface EventContext {
  event: JsonValue;
  headers: JsonValue;
}

const MAX_SHOWN_CHARS = 200;
/** Above this number of records in one event, a scan takes fewer requests than single reads. */
const MAX_KEYS = 500;

/** Finds the records that a delivery is about. Never throws for what a sender can send. */
export function readDelivery(delivery: { headers: string; body: Uint8Array }, rules: EventRules): DeliveryContent {
  const body = parseBody(delivery.body);
  if ('reason' in body) return { is: 'dead', reason: body.reason };
  const path = rules.webhooks.events;
  const events = path === null ? [body.value] : fieldAt(body.value, path);
  if (!Array.isArray(events)) {
    return { is: 'ignored', kind: null, reason: `the body has no list of events at "${path}"` };
  }
  // The receiver wrote the headers as JSON: an error here is a bug, or a damaged file.
  const headers = parseJson(delivery.headers);
  const read = events.flatMap((event) => readEvent({ event, headers }, rules));
  const targets = read.filter((one) => 'resource' in one);
  if (targets.length > 0) return { is: 'read', targets };
  const first = read.find((one) => 'reason' in one) ?? { kind: null, reason: 'the list of events is empty' };
  return { is: 'ignored', ...first };
}

/** Parses strictly: a lenient reading might differ from what was signed. */
function parseBody(bytes: Uint8Array): { value: JsonValue } | { reason: string } {
  try {
    const { text } = decodeText(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), '');
    const value = parseJson(text);
    // The limits are meant for records: another value is checked as the only field of one.
    const refused = limitRejection(isObject(value) ? value : { body: value }, bytes.byteLength);
    return refused === null ? { value } : { reason: `the body is ${refused.detail}` };
  } catch (error) {
    return { reason: messageOf(error) };
  }
}

function readEvent(context: EventContext, { webhooks, resources }: EventRules): (EventTarget | IgnoredEvent)[] {
  const sentKind = readText(context, webhooks.kind) ?? '';
  const kind = sentKind === '' ? null : toShortText(sentKind);
  const rules = matchingRules(context, sentKind, webhooks);
  const matches = rules.flatMap(({ resource, id = webhooks.id, updated = webhooks.updated, deleted }) => {
    const names = resource ?? findResource(context, sentKind, webhooks);
    const isDelete = deleted ?? webhooks.deleted.some((pattern) => matchesPattern(pattern, sentKind));
    return names === null ? [] : [{ names, id, updated, isDelete }];
  });
  const quotedKind = kind === null ? '(none)' : `"${kind}"`;
  if (matches.length === 0) {
    return [{ kind, reason: `nothing says which resource an event of the kind ${quotedKind} is about` }];
  }
  // A rule with an empty list of resources is there to ignore events.
  if (matches.every(({ names }) => names.length === 0)) {
    return [{ kind, reason: `a rule of the profile ignores an event of the kind ${quotedKind}` }];
  }
  return matches.flatMap(({ names, id, updated, isDelete }) =>
    names.flatMap((resource): (EventTarget | IgnoredEvent)[] => {
      const profile = Object.hasOwn(resources, resource) ? resources[resource] : undefined;
      if (profile === undefined) {
        return [{ kind, reason: `"${toShortText(resource)}" is no resource that is synced` }];
      }
      const at = readTime(context, updated, updatedZone(profile));
      return readKeys(context, id, profile.id).map((key) => ({ kind, resource, key, updated: at, isDelete }));
    }),
  );
}

/**
 * Returns the first rule that matches, and further ones up to the first without `continue`. If none matches, returns a rule
 * without fields: then the fields of `webhooks` apply.
 */
function matchingRules(
  context: EventContext,
  kind: string,
  { rules }: WebhookProfile,
): readonly Partial<WebhookRule>[] {
  const matching = rules.filter(
    (rule) =>
      rule.kind.some((pattern) => matchesPattern(pattern, kind)) &&
      rule.where.every((condition) => meetsCondition(context, condition)),
  );
  if (matching.length === 0) return [{}];
  const last = matching.findIndex((rule) => !rule.continue);
  return last === -1 ? matching : matching.slice(0, last + 1);
}

function meetsCondition(context: EventContext, { field, patterns }: FieldCondition<EventField['from']>): boolean {
  const value = readValue(context, field);
  const text = typeof value === 'boolean' ? String(value) : toScalarText(value);
  return text !== null && patterns.some((pattern) => matchesPattern(pattern, text));
}

/** Looks the resource up by the event's kind, else by the service's word for the resource. */
function findResource(
  context: EventContext,
  kind: string,
  { kinds, resource, resource_names }: WebhookProfile,
): [string] | null {
  const byKind = Object.entries(kinds).find(([pattern]) => matchesPattern(pattern, kind));
  if (byKind !== undefined) return [byKind[1]];
  const word = resource === null ? null : readText(context, resource);
  if (word === null) return null;
  return [Object.hasOwn(resource_names, word) ? (resource_names[word] ?? word) : word];
}

/** Returns the keys in the first field that has any; `[null]`, which requests a scan, without keys or with too many. */
function readKeys(
  context: EventContext,
  fields: readonly EventField[] | null,
  id: ResourceProfile['id'],
): readonly (string | null)[] {
  for (const field of fields ?? []) {
    const value = readValue(context, field) ?? null;
    const keys = new Set((Array.isArray(value) ? value : [value]).map((each) => readKey(each, id)));
    if (keys.size > MAX_KEYS) return [null];
    if ([...keys].some((key) => key !== null)) return [...keys];
  }
  return [null];
}

/** Reads the key from an object with the fields of the id, as in a record, or from a single value, which is the id. */
function readKey(value: JsonValue, id: ResourceProfile['id']): string | null {
  const found = recordKey(value, typeof id === 'string' && !isObject(value) ? '' : id);
  return 'key' in found ? found.key : null;
}

/** Reads the first valid time; `zone` is for times without one. */
function readTime(context: EventContext, fields: readonly EventField[] | null, zone: TimeZone | null): number | null {
  for (const field of fields ?? []) {
    const value = readValue(context, field);
    // Headers are texts, also those that hold a number.
    const isNumber = field.from === 'header' && typeof value === 'string' && /^\d{1,17}$/.test(value);
    const instant = parseInstant(isNumber ? Number(value) : value, zone);
    if (instant !== null) return instant.epochMs;
  }
  return null;
}

function readText(context: EventContext, field: EventField): string | null {
  return toScalarText(readValue(context, field));
}

function toScalarText(value: JsonValue | undefined): string | null {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' && value !== '' ? value : null;
}

function readValue({ event, headers }: EventContext, { from, name }: EventField): JsonValue | undefined {
  if (from === 'json') return stepsOf(name).some(isEach) ? readValues(event, name) : fieldAt(event, name);
  return isObject(headers) && Object.hasOwn(headers, name) ? headers[name] : undefined;
}

/** Returns all values at a path with `[*]` or `*` in it. */
function readValues(event: JsonValue, path: string): JsonValue[] {
  let values: readonly JsonValue[] = [event];
  for (const step of stepsOf(path)) {
    values = values.flatMap((value) => {
      if (!isEach(step)) return [stepInto(value, step)].filter((found) => found !== undefined);
      if (Array.isArray(value)) return step === EACH_ELEMENT ? value : [];
      return step === EACH_MEMBER && isObject(value) ? Object.values(value) : [];
    });
  }
  return [...values];
}

/** Makes a text short, on one line, and storable in every database. */
function toShortText(text: string): string {
  return visibleText(text.slice(0, MAX_SHOWN_CHARS).toWellFormed());
}
