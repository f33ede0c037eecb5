import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { eventFieldsOf, type WebhookProfile } from '../../config/profile/webhooks.ts';
import type { WebhookSettings } from '../../config/settings.ts';
import type { NewDelivery } from '../../database/inbox.ts';
import { decodeText } from '../../http/outcome/read-answer.ts';
import { stepsOf } from '../../model/body-path.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isJson, scrub, scrubOwn } from '../../observe/scrub.ts';
import { keysOfText, pathText } from '../../rows/columns/source-path.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/field-at.ts';

/** Replaces a secret if `***` would break the JSON: in a number, or a list of bytes. */
const DIGIT_STAND_IN = '1';

/**
 * Takes secrets out of a delivery that was believed, before it is stored: some schemes send theirs in the body, and a
 * service may send back whatever it knows. All else stays as it came: of
 * `secrets`, which may grow, short ones may be words of any event.
 */
export function deliveryMask(
  secrets: readonly string[],
  { value }: SignatureScheme,
  webhook: Pick<WebhookSettings, 'secrets'>,
): (delivery: NewDelivery) => NewDelivery {
  const inBody = value.from.from === 'json' ? webhook.secrets.map((secret) => secret.value) : [];
  const clean: Clean = (text, standIn) => scrub(scrubOwn(text, secrets, standIn), inBody, standIn);
  return ({ delivery_id, headers, body, ...delivery }) => ({
    ...delivery,
    delivery_id: maskedId(delivery_id, clean),
    headers: clean(headers),
    body: maskedBody(body, clean),
  });
}

type Clean = (text: string, standIn?: string) => string;

/** Two ids must stay two, whatever is taken out of them. */
function maskedId(id: string, clean: Clean): string {
  const masked = clean(id);
  return masked === id ? id : `${masked}#${createHash('sha256').update(id).digest('hex').slice(0, 16)}`;
}

function maskedBody(body: Uint8Array, clean: Clean): Uint8Array {
  const encoding = isUtf8(body) ? 'utf8' : 'latin1';
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(encoding);
  const masked = clean(text);
  if (masked === text) return body;
  const isBroken = isJson(text) && !isJson(masked);
  return Buffer.from(isBroken ? clean(text, DIGIT_STAND_IN) : masked, encoding);
}

/** Stands for what is hidden. */
const HIDDEN = '***';
/** What lies deeper is hidden whole; a body that deep is read by nobody. */
const MOST_LEVELS = 120;

interface Search {
  /** Keys of the hidden fields in lower case, from their record on. */
  hidden: readonly (readonly string[])[];
  /** Places that events are read by, as texts: what lies there is needed. */
  read: ReadonlySet<string>;
}

/**
 * A delivery without the values of fields that are hidden: where its body holds a record, on any level, or an object
 * that looks like one. A body that is no JSON is hidden whole, because nobody knows what it holds.
 */
export function withoutFields(delivery: NewDelivery, hidden: readonly string[], profile: WebhookProfile): NewDelivery {
  const { body } = delivery;
  const search = { hidden: hidden.map((path) => keysOfText(path.toLowerCase())), read: placesOf(profile) };
  return { ...delivery, body: hiddenIn(Buffer.from(body.buffer, body.byteOffset, body.byteLength), search) };
}

function hiddenIn(body: Buffer, search: Search): Buffer {
  try {
    const value = parseJson(decodeText(body, '').text);
    const rest = hide(value, [], search);
    return rest === value ? body : Buffer.from(JSON.stringify(rest));
  } catch {
    return Buffer.from(HIDDEN);
  }
}

function placesOf(profile: WebhookProfile): ReadonlySet<string> {
  const base = keysIn(profile.events ?? '');
  const fields = eventFieldsOf(profile).filter(({ from }) => from === 'json');
  return new Set(fields.map(({ name }) => pathText([...base, ...keysIn(name)])));
}

function keysIn(path: string): string[] {
  return stepsOf(path).filter((step) => typeof step === 'string');
}

/** Returns the same value if nothing in it is hidden. `at` are the keys that lead to it. */
function hide(value: JsonValue, at: readonly string[], search: Search): JsonValue {
  if (at.length > MOST_LEVELS) return HIDDEN;
  if (Array.isArray(value)) {
    const elements = value.map((element) => hide(element, at, search));
    return elements.some((element, index) => element !== value[index]) ? elements : value;
  }
  if (!isObject(value)) return value;
  const object = search.hidden.reduce<JsonObject>((rest, keys) => hideField(rest, keys, at, search), value);
  return withMembers(object, (key, member) => hide(member, [...at, key], search));
}

/** A sender may write keys in another case than the listing does, or several as one with dots (`"author.email"`). */
function hideField(object: JsonObject, keys: readonly string[], at: readonly string[], search: Search): JsonObject {
  return withMembers(object, (name, member) => {
    const named = name.toLowerCase();
    const [first = ''] = keys;
    if (!named.startsWith(first)) return member;
    const count = keys.findIndex((_, index) => keys.slice(0, index + 1).join('.') === named) + 1;
    return count === 0 ? member : hideAt(member, keys.slice(count), [...at, name], search);
  });
}

function hideAt(value: JsonValue, keys: readonly string[], at: readonly string[], search: Search): JsonValue {
  if (keys.length === 0) return value === null || search.read.has(pathText(at)) ? value : HIDDEN;
  if (!Array.isArray(value)) return isObject(value) ? hideField(value, keys, at, search) : value;
  const elements = value.map((element) => hideAt(element, keys, at, search));
  return elements.some((element, index) => element !== value[index]) ? elements : value;
}

function withMembers(object: JsonObject, change: (key: string, member: JsonValue) => JsonValue): JsonObject {
  const members = Object.entries(object).map(([key, member]) => [key, change(key, member)] as const);
  return members.some(([key, member]) => member !== object[key]) ? Object.fromEntries(members) : object;
}
