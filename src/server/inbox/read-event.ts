import type { EventField, FieldCondition } from '../../config/profile/basic-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { WebhookProfile, WebhookRule } from '../../config/profile/webhooks.ts';
import { EACH_ELEMENT, EACH_MEMBER, isEach, stepsOf } from '../../model/body-path.ts';
import type { JsonValue } from '../../model/json.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import { visibleText } from '../../model/visible-text.ts';
import { parseInstant } from '../../rows/columns/timestamps.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { fieldAt, isObject, stepInto } from '../../rows/records/field-at.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import { fitsPattern } from './fits-pattern.ts';

/** The content of one event. It is only a hint: the record itself is read from the service. */
export interface EventTarget {
  /** The service's word for what happened, cut to 200 characters; null if it says none. */
  kind: string | null;
  /** The profile's name of it. */
  resource: string;
  /** As `rows/records/record-key.ts` makes it; null if the event names no record: then the resource has to be walked. */
  key: string | null;
  /** The record's time of change after the event, in epoch milliseconds; null if it does not say. */
  updated: number | null;
  isDelete: boolean;
}

/** Why an event concerns nothing of ours. */
interface IgnoredEvent {
  kind: string | null;
  reason: string;
}

/** The places of things in an event by the profile, and the resources that are synced, by name. */
export interface EventRules {
  webhooks: WebhookProfile;
  resources: Readonly<Record<string, Pick<ResourceProfile, 'id' | 'updated' | 'times'>>>;
}

/** One event within its delivery. */
export interface Occasion {
  event: JsonValue;
  headers: JsonValue;
}

/** How one event is read: by a rule of the profile, or as all events are. */
interface Reading {
  resources: readonly string[];
  id: readonly EventField[] | null;
  updated: readonly EventField[] | null;
  isDelete: boolean;
}

/** Longest text from a delivery that is kept beside it or quoted. */
const MOST_SHOWN = 200;
/** Of one event about more records than this, none is read alone: a walk takes fewer requests. */
const MOST_KEYS = 500;

/** The records that an event is about, or why there are none; never empty. */
export function readEvent(occasion: Occasion, rules: EventRules): (EventTarget | IgnoredEvent)[] {
  const { webhooks, resources } = rules;
  const word = textAt(occasion, webhooks.kind);
  const kind = word === null ? null : shown(word);
  const readings = readingsOf(occasion, word ?? '', webhooks);
  if (readings.every((reading) => reading.resources.length === 0)) {
    const why =
      readings.length === 0 ? 'nothing says which resource an event' : 'a rule of the profile ignores an event';
    return [{ kind, reason: `${why} of the kind ${quoted(word)}${readings.length === 0 ? ' is about' : ''}` }];
  }
  return readings.flatMap((reading) =>
    reading.resources.flatMap((name): (EventTarget | IgnoredEvent)[] => {
      const profile = Object.hasOwn(resources, name) ? resources[name] : undefined;
      if (profile === undefined) return [{ kind, reason: `${quoted(name)} is no resource that is synced` }];
      const updated = timeAt(occasion, reading.updated, updatedZone(profile));
      const keys = keysOf(occasion, reading.id, profile.id);
      return keys.map((key) => ({ kind, resource: name, key, updated, isDelete: reading.isDelete }));
    }),
  );
}

/** By the first rule that fits, and those after it while they say `continue`; else as all events are read. */
function readingsOf(occasion: Occasion, kind: string, webhooks: WebhookProfile): Reading[] {
  const fitting = webhooks.rules.filter((rule) => fitsRule(occasion, kind, rule));
  const last = fitting.findIndex((rule) => !rule.continue);
  const rules: readonly Partial<WebhookRule>[] =
    fitting.length === 0 ? [{}] : fitting.slice(0, last === -1 ? fitting.length : last + 1);
  return rules.flatMap(({ resource, id = webhooks.id, updated = webhooks.updated, deleted }) => {
    const resources = resource ?? namedResource(occasion, kind, webhooks);
    const isDelete = deleted ?? webhooks.deleted.some((pattern) => fitsPattern(pattern, kind));
    return resources === null ? [] : [{ resources, id, updated, isDelete }];
  });
}

function fitsRule(occasion: Occasion, kind: string, rule: WebhookRule): boolean {
  return (
    rule.kind.some((pattern) => fitsPattern(pattern, kind)) &&
    rule.where.every((condition) => isMet(occasion, condition))
  );
}

function isMet(occasion: Occasion, { field, patterns }: FieldCondition<EventField['from']>): boolean {
  const value = valueAt(occasion, field);
  const text = typeof value === 'boolean' ? String(value) : scalarText(value);
  return text !== null && patterns.some((pattern) => fitsPattern(pattern, text));
}

/** By the event's kind if the profile has a pattern for it, else by the service's word for the resource. */
function namedResource(
  occasion: Occasion,
  kind: string,
  { kinds, resource, resource_names }: WebhookProfile,
): [string] | null {
  const byKind = Object.entries(kinds).find(([pattern]) => fitsPattern(pattern, kind));
  if (byKind !== undefined) return [byKind[1]];
  const word = resource === null ? null : textAt(occasion, resource);
  if (word === null) return null;
  return [Object.hasOwn(resource_names, word) ? (resource_names[word] ?? word) : word];
}

/**
 * The keys at the first place that holds any; one null if none does, or too many. An object holds the fields of the id,
 * as the record itself does.
 */
function keysOf(
  occasion: Occasion,
  places: readonly EventField[] | null,
  id: ResourceProfile['id'],
): readonly (string | null)[] {
  for (const place of places ?? []) {
    const value = valueAt(occasion, place) ?? null;
    const values = Array.isArray(value) ? value : [value];
    const keys = new Set(values.map((each) => keyOf(each, id)));
    if (keys.size > MOST_KEYS) return [null];
    if ([...keys].some((key) => key !== null)) return [...keys];
  }
  return [null];
}

function keyOf(value: JsonValue, id: ResourceProfile['id']): string | null {
  const found = recordKey(value, typeof id === 'string' && !isObject(value) ? '' : id);
  return 'key' in found ? found.key : null;
}

/** An event writes the time of change as the record does: a local one is one of the same zone. */
function timeAt(occasion: Occasion, places: readonly EventField[] | null, zone: TimeZone | null): number | null {
  for (const place of places ?? []) {
    const value = valueAt(occasion, place);
    // A header has no numbers.
    const isNumber = place.from === 'header' && typeof value === 'string' && /^\d{1,17}$/.test(value);
    const moment = parseInstant(isNumber ? Number(value) : value, zone);
    if (moment !== null) return moment.epochMs;
  }
  return null;
}

function textAt(occasion: Occasion, place: EventField): string | null {
  return scalarText(valueAt(occasion, place));
}

function scalarText(value: JsonValue | undefined): string | null {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' && value !== '' ? value : null;
}

function valueAt({ event, headers }: Occasion, { from, name }: EventField): JsonValue | undefined {
  if (from === 'json') return stepsOf(name).some(isEach) ? valuesAt(event, name) : fieldAt(event, name);
  return isObject(headers) && Object.hasOwn(headers, name) ? headers[name] : undefined;
}

/** All values at a path with `[*]` or `*` in it. */
function valuesAt(event: JsonValue, path: string): JsonValue[] {
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

function quoted(word: string | null): string {
  return word === null ? '(none)' : `"${shown(word)}"`;
}

/** Short, on one line, and fit for every store. */
function shown(text: string): string {
  return visibleText(text.slice(0, MOST_SHOWN).toWellFormed());
}
