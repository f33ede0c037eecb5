import { createHmac } from 'node:crypto';
import type { SignatureScheme } from '../../src/config/profile/signature-scheme.ts';
import { keyBytes, type WebhookSecret } from '../../src/config/profile/signature-secret.ts';
import { signedContent } from '../../src/server/signature/create-verifier.ts';
import { type Delivery, schemeInFamily } from '../../src/server/signature/delivery.ts';

/** A delivery that is to be signed; `at` in epoch milliseconds, `path` with its query. */
export interface DeliveryDraft {
  body: Buffer;
  id: string;
  at: number;
  method: string;
  path: string;
  publicUrl: string | null;
  headers?: Readonly<Record<string, string>>;
}

/** A delivery as it is sent: each header once. */
export interface SignedDelivery extends Delivery {
  headers: Readonly<Record<string, string>>;
}

/** Signs as the scheme's sender would, by its first method whose form the secret has. */
export function signDelivery(given: SignatureScheme, secret: WebhookSecret, draft: DeliveryDraft): SignedDelivery {
  const scheme = schemeInFamily(given, given.families[0] ?? '');
  const { id, timestamp, signed_headers: list, value } = scheme;
  const method = scheme.methods.find((each) => each.type !== 'ed25519' && keyBytes(each, secret) !== null);
  const key = method && keyBytes(method, secret);
  if (!key) throw new Error('no delivery can be signed with this secret');
  const ts = { s: String(Math.floor(draft.at / 1_000)), ms: String(draft.at), iso: new Date(draft.at).toISOString() };
  const time = timestamp === null ? '' : ts[timestamp.unit];
  const parts = new Map(timestamp?.from.from === 'part' ? [[timestamp.from.name, time]] : []);
  const headers: Record<string, string> = { 'content-type': 'application/json', ...draft.headers };
  if (id.from === 'header') headers[id.name] = draft.id;
  if (timestamp?.from.from === 'header') headers[timestamp.from.name] = time;
  if (list !== null) headers[list.from.name] = [...Object.keys(headers), list.from.name].toSorted().join(',');
  const { publicUrl, path, body } = draft;
  const delivery = { method: draft.method, path, headers, body };
  const content = signedContent({ scheme, delivery, parts, id: draft.id, ts: time, publicUrl });
  if (content === null) throw new Error('a header or a part that this scheme signs is missing');
  const isSecret = method.type === 'static' || method.type === 'basic';
  const signature = createHmac(method.algorithm, key).update(Buffer.concat(content)).digest(value.encoding);
  const text = isSecret ? key.toString() : signature;
  const item = [...parts, [method.item ?? '', text]].map((pair) => pair.join('=')).join(value.separator[0]);
  const written = { plain: value.prefix + text, list: `${method.item},${text}`, kv: item }[value.parse];
  const { from, name } = value.from;
  if (from === 'header') return { ...delivery, headers: { ...headers, [name]: written } };
  if (from === 'json') return { ...delivery, body: Buffer.from(withMember(body.toString(), name, written)) };
  const joint = path.includes('?') ? '&' : '?';
  return { ...delivery, path: `${path}${joint}${name}=${encodeURIComponent(written)}` };
}

/** The JSON object with the text at a path of keys. */
function withMember(object: string, path: string, text: string): string {
  const [key = '', ...below] = path.split('.');
  const value = JSON.parse(object);
  const inner = JSON.stringify(value[key] ?? {});
  return JSON.stringify({
    ...value,
    [key]: below.length === 0 ? text : JSON.parse(withMember(inner, below.join('.'), text)),
  });
}
