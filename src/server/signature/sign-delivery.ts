import { createHash } from 'node:crypto';
import { needsPublicUrl, type SignatureMethod, type SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../config/profile/signature-secret.ts';
import { ConfigError } from '../../model/errors.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/as-record.ts';
import { type Delivery, schemeInFamily, type SignatureParts, writeTimestamp } from './delivery.ts';
import { SIGNERS } from './signature-methods.ts';
import { isForm, signedAddress, signedContent, signedUrls } from './signed-content.ts';

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
  /** Headers in addition to those of the scheme, by lower-case name; `application/json` is the default type. */
  headers?: Readonly<Record<string, string>>;
  /** Further parts of the signature header, as `env` for Hygraph. */
  parts?: Readonly<Record<string, string>>;
}

/** A delivery as it is sent: each header once. */
export interface SignedDelivery extends Delivery {
  headers: Readonly<Record<string, string>>;
}

/**
 * Signs as the scheme's sender would; the body and the query may change if the scheme puts something there. Throws
 * `ConfigError` if the secret does not fit, or the address or a header that must be signed is missing.
 */
export function signDelivery(scheme: SignatureScheme, secret: WebhookSecret, draft: DeliveryDraft): SignedDelivery {
  const own = schemeInFamily(scheme, scheme.families[0] ?? '');
  const { method, key, sign } = signingKey(own, secret);
  if (draft.publicUrl === null && needsPublicUrl(own)) throw missing('the public URL, which this scheme signs');
  const parts = new Map(Object.entries(draft.parts ?? {}));
  const unsigned = withListOfHeaders(own, withPlainFields(own, draft, parts));
  const [url = ''] = signedUrls(own.url_form, draft.publicUrl, unsigned);
  const ts = own.timestamp === null ? '' : writeTimestamp(draft.at, own.timestamp.unit);
  const address = signedAddress(draft.publicUrl, unsigned);
  const content = signedContent({
    scheme: own,
    delivery: unsigned,
    parts,
    id: draft.id,
    ts,
    url,
    ...address,
    secret: key,
  });
  if (content === null) throw missing('a header or a part that this scheme signs');
  return put(own.value.from, unsigned, signatureText(own, method, sign(content), parts));
}

/** Adds id, time, and the digest of a body that is no form. */
function withPlainFields(scheme: SignatureScheme, draft: DeliveryDraft, parts: Map<string, string>): SignedDelivery {
  const { id, timestamp, body_hash } = scheme;
  const headers: Record<string, string> = { 'content-type': 'application/json', ...draft.headers };
  if (id.from === 'header') headers[id.name] = draft.id;
  if (timestamp?.from.from === 'header') headers[timestamp.from.name] = writeTimestamp(draft.at, timestamp.unit);
  if (timestamp?.from.from === 'part') parts.set(timestamp.from.name, writeTimestamp(draft.at, timestamp.unit));
  const delivery = { method: draft.method, path: draft.path, headers, body: draft.body };
  if (body_hash === null || isForm(delivery)) return delivery;
  return put(body_hash, delivery, createHash('sha256').update(draft.body).digest('hex'));
}

/** Adds the header that lists the signed headers: all that are there. */
function withListOfHeaders(scheme: SignatureScheme, delivery: SignedDelivery): SignedDelivery {
  if (scheme.signed_headers === null) return delivery;
  const { from } = scheme.signed_headers;
  const names = new Set([...Object.keys(delivery.headers), from.name]);
  return put(from, delivery, [...names].toSorted().join(','));
}

function signatureText(
  { value }: SignatureScheme,
  method: SignatureMethod,
  signature: Buffer,
  parts: SignatureParts,
): string {
  const isSecret = method.type === 'static' || method.type === 'basic';
  const text = signature.toString(isSecret ? 'utf8' : value.encoding);
  const item = method.item ?? '';
  if (value.parse === 'plain') return value.prefix + text;
  if (value.parse === 'list') return `${item},${text}`;
  const [separator = ','] = value.separator;
  return [...parts, [item, text] as const].map(([name, part]) => `${name}=${part}`).join(separator);
}

function put(
  { from, name }: { from: 'header' | 'query' | 'json'; name: string },
  delivery: SignedDelivery,
  text: string,
): SignedDelivery {
  if (from === 'header') return { ...delivery, headers: { ...delivery.headers, [name]: text } };
  if (from === 'json') return { ...delivery, body: withField(delivery.body, name.split('.'), text) };
  const joint = delivery.path.includes('?') ? '&' : '?';
  return { ...delivery, path: `${delivery.path}${joint}${name}=${encodeURIComponent(text)}` };
}

function withField(body: Buffer, [key = '', ...below]: readonly string[], text: string): Buffer {
  const value = parseJson(body.toString());
  if (!isObject(value)) throw missing('a JSON object as body, which carries the secret of this scheme');
  const inner = Buffer.from(JSON.stringify(value[key] ?? {}));
  const member = below.length === 0 ? text : parseJson(withField(inner, below, text).toString());
  return Buffer.from(JSON.stringify({ ...value, [key]: member }));
}

function missing(what: string): ConfigError {
  return new ConfigError('webhook_unsigned', `the delivery cannot be signed without ${what}`);
}

/** Throws `ConfigError('webhook_secret')`, also for a key pair, of which only the service has the private key. */
function signingKey(scheme: SignatureScheme, secret: WebhookSecret) {
  for (const method of scheme.methods) {
    const { type, algorithm } = method;
    const key = keyBytes(method, secret);
    if (type === 'ed25519' || key === null) continue;
    return { method, key, sign: (content: readonly Buffer[]) => SIGNERS[type](key, algorithm, content) };
  }
  const fault = secretFault(scheme, secret) ?? 'only the service has the private key of an Ed25519 signature';
  throw new ConfigError('webhook_secret', `cannot sign with this secret: ${fault}`);
}
