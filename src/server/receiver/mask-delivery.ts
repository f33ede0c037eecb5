// Masks what must not be stored of a webhook delivery: secrets (`createSecretMask`), such as the one by which some services
// authenticate in the body, and the fields that the profile hides (`hideFields`), such as `author.email`. The receiver
// calls both after it has verified the signature.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { eventFieldsOf, type SignatureScheme, type WebhookProfile } from '../../config/profile/signature-scheme.ts';
import type { WebhookSettings } from '../../config/settings.ts';
import type { NewDelivery } from '../../database/inbox.ts';
import { decodeText } from '../../http/outcome/read-answer.ts';
import { stepsOf } from '../../model/body-path.ts';
import type { JsonValue } from '../../model/json.ts';
import { isJson, scrub, scrubOwn } from '../../observe/scrub.ts';
import { keysOfText, pathText } from '../../rows/columns/column-name.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/as-record.ts';

/** Replaces a secret if `***` would break the JSON: in a number, or a list of bytes. */
const DIGIT_MASK = '1';

/**
 * Returns a function that removes secrets from a verified delivery. A service may send back any of them (`secrets`, a list
 * that may grow). Short ones are not removed, because they may be words, except those of a scheme that sends them in the
 * body.
 */
export function createSecretMask(
  secrets: readonly string[],
  { value }: SignatureScheme,
  webhook: { secrets: WebhookSettings['secrets'] },
): (delivery: NewDelivery) => NewDelivery {
  const sentSecrets = value.from.from === 'json' ? webhook.secrets.map((secret) => secret.value) : [];
  const clean: Clean = (text, mask) => scrub(scrubOwn(text, secrets, mask), sentSecrets, mask);
  return (delivery) => ({
    ...delivery,
    delivery_id: maskId(delivery.delivery_id, clean),
    headers: clean(delivery.headers),
    body: maskBody(delivery.body, clean),
  });
}

type Clean = (text: string, mask?: string) => string;

/** Appends a hash, so that two ids remain different. */
function maskId(id: string, clean: Clean): string {
  const masked = clean(id);
  return masked === id ? id : `${masked}#${createHash('sha256').update(id).digest('hex').slice(0, 16)}`;
}

function maskBody(body: Uint8Array, clean: Clean): Uint8Array {
  const encoding = isUtf8(body) ? 'utf8' : 'latin1';
  const text = toBuffer(body).toString(encoding);
  const masked = clean(text);
  if (masked === text) return body;
  const isBroken = isJson(text) && !isJson(masked);
  return Buffer.from(isBroken ? clean(text, DIGIT_MASK) : masked, encoding);
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const HIDDEN = '***';
/** Deeper values are hidden. */
const MAX_DEPTH = 120;

interface HiddenFields {
  /** Paths of the hidden fields within their record, in lower case, such as `.author.email`. */
  hidden: readonly string[];
  /** Paths of the fields by which events are read, such as the id of the record: they must remain. */
  required: ReadonlySet<string>;
}

/**
 * Hides fields in every object of the body that may be a record. A body that is not JSON is hidden entirely, because it
 * may hold anything.
 */
export function hideFields(delivery: NewDelivery, fields: readonly string[], profile: WebhookProfile): NewDelivery {
  const eventPath = keysIn(profile.events ?? '');
  const required = eventFieldsOf(profile).flatMap(({ from, name }) =>
    from === 'json' ? [pathText([...eventPath, ...keysIn(name)])] : [],
  );
  const hidden = fields.map((path) => `.${keysOfText(path).join('.').toLowerCase()}`);
  try {
    const value = parseJson(decodeText(toBuffer(delivery.body), '').text);
    const masked = JSON.stringify(hideIn(value, [], { hidden, required: new Set(required) }));
    // A body without hidden fields is stored as it was sent.
    return masked === JSON.stringify(value) ? delivery : { ...delivery, body: Buffer.from(masked) };
  } catch {
    return { ...delivery, body: Buffer.from(HIDDEN) };
  }
}

function keysIn(path: string): string[] {
  return stepsOf(path).filter((step) => typeof step === 'string');
}

/** Paths are compared as texts in lower case: a sender may write a key in another case, or two keys as one with a dot. */
function hideIn(value: JsonValue, path: readonly string[], fields: HiddenFields): JsonValue {
  if (path.length > MAX_DEPTH) return HIDDEN;
  if (Array.isArray(value)) return value.map((element) => hideIn(element, path, fields));
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([key, member]): [string, JsonValue] => {
    const memberPath = [...path, key];
    const text = `.${memberPath.join('.').toLowerCase()}`;
    const isHidden = fields.hidden.some((end) => text.endsWith(end)) && !fields.required.has(pathText(memberPath));
    return [key, isHidden && member !== null ? HIDDEN : hideIn(member, memberPath, fields)];
  });
  return Object.fromEntries(members);
}
