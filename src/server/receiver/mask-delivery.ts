// Removes secrets and hidden fields from a delivery before it is stored.
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
 * Removes secrets from a verified delivery before it is stored: some schemes send theirs in the body, and a service may
 * send back whatever it knows. `secrets` may grow; short ones stay, because they may be ordinary words.
 */
export function deliveryMask(
  secrets: readonly string[],
  { value }: SignatureScheme,
  webhook: { secrets: WebhookSettings['secrets'] },
): (delivery: NewDelivery) => NewDelivery {
  const inBody = value.from.from === 'json' ? webhook.secrets.map((secret) => secret.value) : [];
  const clean: Clean = (text, mask) => scrub(scrubOwn(text, secrets, mask), inBody, mask);
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
/** Deeper values are hidden entirely. */
const MAX_LEVELS = 120;

interface HiddenFields {
  /** Paths of the hidden fields in lower case, from their record on. */
  paths: readonly string[];
  /** Paths of the fields by which events are read, which must remain. */
  read: ReadonlySet<string>;
}

/**
 * Hides fields in every object of the body that may be a record. A body that is not JSON is hidden entirely, because it
 * may hold anything.
 */
export function withoutFields(delivery: NewDelivery, hidden: readonly string[], profile: WebhookProfile): NewDelivery {
  const base = keysIn(profile.events ?? '');
  const read = eventFieldsOf(profile).flatMap(({ from, name }) =>
    from === 'json' ? [pathText([...base, ...keysIn(name)])] : [],
  );
  const paths = hidden.map((path) => `.${keysOfText(path).join('.').toLowerCase()}`);
  try {
    const value = parseJson(decodeText(toBuffer(delivery.body), '').text);
    const masked = JSON.stringify(hideIn(value, [], { paths, read: new Set(read) }));
    // A body without hidden fields remains as it was sent.
    return masked === JSON.stringify(value) ? delivery : { ...delivery, body: Buffer.from(masked) };
  } catch {
    return { ...delivery, body: Buffer.from(HIDDEN) };
  }
}

function keysIn(path: string): string[] {
  return stepsOf(path).filter((step) => typeof step === 'string');
}

/** `at` are the keys that lead to the value. A sender may write keys in another case, or several as one with dots. */
function hideIn(value: JsonValue, at: readonly string[], fields: HiddenFields): JsonValue {
  if (at.length > MAX_LEVELS) return HIDDEN;
  if (Array.isArray(value)) return value.map((element) => hideIn(element, at, fields));
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([key, member]): [string, JsonValue] => {
    const path = [...at, key];
    const text = `.${path.join('.').toLowerCase()}`;
    const isHidden = fields.paths.some((hidden) => text.endsWith(hidden)) && !fields.read.has(pathText(path));
    return [key, isHidden && member !== null ? HIDDEN : hideIn(member, path, fields)];
  });
  return Object.fromEntries(members);
}
