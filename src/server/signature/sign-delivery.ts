import { createHash, createHmac, createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { ConfigError } from '../../model/errors.ts';
import { isObject } from '../../rows/records/field-at.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../config/profile/signature-secret.ts';
import { needsPublicUrl, type SignatureScheme, type SignatureMethod } from '../../config/profile/signature-scheme.ts';
import { type Delivery, schemeInFamily, writeTimestamp } from './delivery.ts';
import { contentWriter, isForm, signedPath, urlForms } from './signed-content.ts';

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
 * Signs as the scheme's sender would; the body and the query may change if the scheme puts something there. Throws
 * `ConfigError` if secret, address or a header that must be signed is missing.
 */
export function signDelivery(scheme: SignatureScheme, secret: WebhookSecret, draft: DeliveryDraft): SignedDelivery {
  const own = schemeInFamily(scheme, scheme.families[0] ?? '');
  const key = signingKey(own, secret);
  if (draft.publicUrl === null && needsPublicUrl(own)) throw missing('the public URL, which this scheme signs');
  const parts = new Map(Object.entries(draft.parts ?? {}));
  const unsigned = withListOfHeaders(own, withPlainFields(own, draft, parts));
  const path = signedPath(draft.publicUrl)(unsigned.path);
  const [url = ''] = urlForms(own.url_form, draft.publicUrl)(unsigned.path);
  const ts = own.timestamp === null ? '' : writeTimestamp(draft.at, own.timestamp.unit);
  const host = draft.publicUrl === null ? '' : new URL(draft.publicUrl).host;
  const facts = { scheme: own, delivery: unsigned, parts, id: draft.id, ts, url, host, path, secret: key.bytes };
  const content = contentWriter(own)(facts);
  if (content === null) throw missing('a header or a part that this scheme signs');
  return put(own.value.from, unsigned, valueText(own, key, content, parts));
}

/** Everything but the signature: id, time, and the digest of a body that is no form. */
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
): string {
  const isSent = method.type === 'static' || method.type === 'basic';
  const text = isSent ? sign(content).toString() : sign(content).toString(value.encoding);
  const [separator = ','] = value.separator;
  const item = method.item ?? '';
  const forms: Record<typeof value.parse, () => string> = {
    plain: () => value.prefix + text,
    kv: () => [...parts, [item, text] as const].map(([name, part]) => `${name}=${part}`).join(separator),
    list: () => `${item},${text}`,
  };
  return forms[value.parse]();
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

/** The sender's side of a method: its key, and how it signs with it. */
interface SigningKey {
  method: SignatureMethod;
  /** The key's bytes; empty for a private key. */
  bytes: Buffer;
  /** The signature as bytes; for types that sign nothing the secret as it is sent. */
  sign: (content: readonly Buffer[]) => Buffer;
}

/** The bytes before the 32 of an Ed25519 private key in its DER form (RFC 8410). */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SEED_BYTES = 32;

/**
 * The key to sign with. For Ed25519 the secret is the private key: PEM, or its 32 bytes as hex or base64, `whsk_` before
 * them or not. Throws `ConfigError('webhook_secret')`.
 */
function signingKey(scheme: SignatureScheme, secret: WebhookSecret): SigningKey {
  for (const method of scheme.methods) {
    const key = sharedKey(method, secret) ?? privateKey(method, secret.value);
    if (key !== null) return key;
  }
  const expected = scheme.methods.some(({ type }) => type === 'ed25519') ? PRIVATE_EXPECTED : null;
  const fault = [secretFault(scheme, secret), expected].filter((text) => text !== null).join('; ');
  throw new ConfigError('webhook_secret', `cannot sign with this secret: ${fault}`);
}

const PRIVATE_EXPECTED = 'expected, for Ed25519, the private key: PEM, or 32 bytes as hex or base64';

function sharedKey(method: SignatureMethod, secret: WebhookSecret): SigningKey | null {
  const { type } = method;
  const bytes = keyBytes(method, secret);
  if (type === 'ed25519' || bytes === null) return null;
  return { method, bytes, sign: (content) => SIGNERS[type](bytes, method, content) };
}

const SIGNERS: Readonly<
  Record<
    Exclude<SignatureMethod['type'], 'ed25519'>,
    (key: Buffer, method: SignatureMethod, content: readonly Buffer[]) => Buffer
  >
> = {
  hmac: (key, { algorithm }, content) => createHmac(algorithm, key).update(Buffer.concat(content)).digest(),
  hash: (_key, { algorithm }, content) => createHash(algorithm).update(Buffer.concat(content)).digest(),
  static: (key) => key,
  basic: (key) => key,
};

function privateKey(method: SignatureMethod, text: string): SigningKey | null {
  const isPem = text.startsWith('-----BEGIN ');
  const seed = isPem ? null : seedOf(text.replace(/^whsk_/, ''));
  if (method.type !== 'ed25519' || (seed === null && !isPem)) return null;
  const key =
    seed === null
      ? pemKey(text)
      : createPrivateKey({ key: Buffer.concat([PKCS8_ED25519, seed]), format: 'der', type: 'pkcs8' });
  if (key === null) return null;
  return { method, bytes: Buffer.alloc(0), sign: (content) => sign(null, Buffer.concat(content), key) };
}

function pemKey(text: string): KeyObject | null {
  try {
    const key = createPrivateKey(text);
    return key.asymmetricKeyType === 'ed25519' ? key : null;
  } catch {
    // Its message could hold a piece of the key.
    return null;
  }
}

function seedOf(text: string): Buffer | null {
  const encoding = /^[0-9a-f]{64}$/i.test(text) ? 'hex' : 'base64';
  const seed = Buffer.from(text, encoding);
  return seed.length === SEED_BYTES && /^[A-Za-z0-9+/]+=?$/.test(text) ? seed : null;
}
