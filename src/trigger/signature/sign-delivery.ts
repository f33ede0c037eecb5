import { createHash } from 'node:crypto';
import { ConfigError } from '../../model/errors.ts';
import { isObject } from '../../shape/records/field-at.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import type { WebhookSecret } from '../../source/signature-secret.ts';
import { needsPublicUrl, type SignatureScheme } from '../../source/signature-scheme.ts';
import { signingKey, type SigningKey } from './signature-text.ts';
import type { Delivery } from './delivery.ts';
import { schemeInFamily } from './scheme-in-family.ts';
import { writtenTime } from './sent-time.ts';
import { contentWriter, isForm } from './signed-content.ts';
import { signedPath, urlForms } from './url-forms.ts';

/** A delivery that is to be signed. */
export interface DeliveryDraft {
  body: Buffer;
  id: string;
  /** Epoch milliseconds. */
  at: number;
  method: string;
  /** Path and query. */
  path: string;
  /** For schemes that sign the address. */
  publicUrl: string | null;
  /** Sent besides what the scheme adds, by lower-case name; `application/json` unless it says another type. */
  headers?: Readonly<Record<string, string>>;
  /** Further parts of the signature header, as `env` for Hygraph. */
  parts?: Readonly<Record<string, string>>;
}

/** A delivery as it is sent: each header once. */
export interface SignedDelivery extends Delivery {
  headers: Readonly<Record<string, string>>;
}

/**
 * Signs as the scheme's sender would; the body and the query may change where the scheme puts something there. Throws
 * `ConfigError` where secret, address or a header that must be signed is missing.
 */
export function signDelivery(scheme: SignatureScheme, secret: WebhookSecret, draft: DeliveryDraft): SignedDelivery {
  const own = schemeInFamily(scheme, scheme.families[0] ?? '');
  const key = signingKey(own, secret);
  if (draft.publicUrl === null && needsPublicUrl(own)) throw missing('the public URL, which this scheme signs');
  const parts = new Map(Object.entries(draft.parts ?? {}));
  const unsigned = withListOfHeaders(own, withPlainFields(own, draft, parts));
  const path = signedPath(draft.publicUrl)(unsigned.path);
  const [url = ''] = urlForms(own.url_form, draft.publicUrl)(unsigned.path);
  const ts = own.timestamp === null ? '' : writtenTime(draft.at, own.timestamp.unit);
  const host = draft.publicUrl === null ? '' : new URL(draft.publicUrl).host;
  const facts = { scheme: own, delivery: unsigned, parts, id: draft.id, ts, url, host, path, secret: key.bytes };
  const content = contentWriter(own)(facts);
  if (content === null) throw missing('a header or a part that this scheme signs');
  return withValue(own, unsigned, valueText(own, key, content, parts, secret.id));
}

/** Everything but the signature: id, time, and the digest of a body that is no form. */
function withPlainFields(scheme: SignatureScheme, draft: DeliveryDraft, parts: Map<string, string>): SignedDelivery {
  const { id, timestamp, body_hash } = scheme;
  const headers: Record<string, string> = { 'content-type': 'application/json', ...draft.headers };
  if (id.from === 'header') headers[id.name] = draft.id;
  if (timestamp?.from.from === 'header') headers[timestamp.from.name] = writtenTime(draft.at, timestamp.unit);
  if (timestamp?.from.from === 'part') parts.set(timestamp.from.name, writtenTime(draft.at, timestamp.unit));
  const delivery = { method: draft.method, path: draft.path, headers, body: draft.body };
  if (body_hash === null || isForm(delivery)) return delivery;
  return put(body_hash, delivery, createHash('sha256').update(draft.body).digest('hex'));
}

/** The header that lists which headers are signed: all that are there. */
function withListOfHeaders(scheme: SignatureScheme, delivery: SignedDelivery): SignedDelivery {
  if (scheme.signed_headers === null) return delivery;
  const { name } = scheme.signed_headers.from;
  const names = [...new Set([...Object.keys(delivery.headers), name])].toSorted();
  return put(scheme.signed_headers.from, delivery, names.join(','));
}

function valueText(
  { value }: SignatureScheme,
  { method, sign }: SigningKey,
  content: readonly Buffer[],
  parts: ReadonlyMap<string, string>,
  keyId: string = '',
): string {
  const isSent = method.type === 'static' || method.type === 'basic';
  const text = isSent ? sign(content).toString() : sign(content).toString(value.encoding);
  const [separator = ','] = value.separator;
  const item = method.item ?? '';
  const forms: Record<typeof value.parse, () => string> = {
    plain: () => value.prefix + text,
    kv: () => [...parts, [item, text] as const].map(([name, part]) => `${name}=${part}`).join(separator),
    list: () => `${item},${text}`,
    slashes: () => `${keyId}/${item}/${text}`,
  };
  return forms[value.parse]();
}

function withValue({ value }: SignatureScheme, delivery: SignedDelivery, text: string): SignedDelivery {
  return put(value.from, delivery, text);
}

function put(place: { from: 'header' | 'query' | 'json'; name: string }, delivery: SignedDelivery, text: string) {
  return WRITERS[place.from](delivery, place.name, text);
}

const WRITERS: Readonly<
  Record<'header' | 'query' | 'json', (delivery: SignedDelivery, name: string, text: string) => SignedDelivery>
> = {
  header: (delivery, name, text) => ({ ...delivery, headers: { ...delivery.headers, [name]: text } }),
  query: (delivery, name, text) => {
    const joint = delivery.path.includes('?') ? '&' : '?';
    return { ...delivery, path: `${delivery.path}${joint}${name}=${encodeURIComponent(text)}` };
  },
  json: (delivery, name, text) => ({ ...delivery, body: withField(delivery.body, name.split('.'), text) }),
};

function withField(body: Buffer, [key = '', ...below]: readonly string[], text: string): Buffer {
  const value = parseJson(body.toString());
  if (!isObject(value)) throw missing('a JSON object as body, which carries the secret of this scheme');
  const inner =
    below.length === 0
      ? text
      : parseJson(withField(Buffer.from(JSON.stringify(value[key] ?? {})), below, text).toString());
  return Buffer.from(JSON.stringify({ ...value, [key]: inner }));
}

function missing(what: string): ConfigError {
  return new ConfigError('webhook_unsigned', `the delivery cannot be signed without ${what}`);
}
