import type { DeliveryRow } from '../../database/inbox.ts';
import { decodeText } from '../../http/outcome/read-answer.ts';
import { messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt, isObject } from '../../rows/records/field-at.ts';
import { limitRejection } from '../../rows/records/record-limits.ts';
import { type EventRules, type EventTarget, readEvent } from './read-event.ts';

/**
 * The content of a delivery: `read` with at least one target; `ignored` if nothing in it concerns a resource of ours;
 * `dead` if its body cannot be understood at all.
 */
export type DeliveryContent =
  | { is: 'read'; targets: EventTarget[] }
  | { is: 'ignored'; reason: string; kind: string | null }
  | { is: 'dead'; reason: string };

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
  const read = events.flatMap((event) => readEvent({ event, headers }, rules));
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
