import type { SignatureScheme, TokenName } from '../../config/profile/signature-scheme.ts';
import {
  percentDecoded,
  queryOf,
  onlyHeader,
  textAt,
  utf8Text,
  type SignatureParts,
  type Delivery,
} from './delivery.ts';
import { createHash } from 'node:crypto';

/** Everything that signed content may be made of. */
interface SignedFacts {
  scheme: SignatureScheme;
  delivery: Delivery;
  parts: SignatureParts;
  id: string;
  ts: string;
  url: string;
  host: string;
  /** Path and query. */
  path: string;
  /** For plain hashes. */
  secret: Buffer;
}

/** Returns null if the delivery has no such piece, or one that no sender signs. */
type Piece = (facts: SignedFacts, name: string) => Buffer | null;

const PIECES: Readonly<Record<TokenName, Piece>> = {
  id: ({ id }) => wireBytes(id),
  ts: ({ ts }) => wireBytes(ts),
  body: ({ delivery }) => delivery.body,
  body_json: ({ delivery }) => jsonString(utf8Text(delivery.body)),
  body_sha256: ({ delivery }) => Buffer.from(sha256(delivery.body)),
  method: ({ delivery }) => wireBytes(delivery.method),
  url: ({ url }) => Buffer.from(url),
  path: ({ path }) => wireBytes(path),
  host: ({ host }) => Buffer.from(host),
  form_sorted: formOrHash,
  signed_headers: signedHeaders,
  secret: ({ secret }) => secret,
  header: ({ delivery }, name) => wireBytes(onlyHeader(delivery, name)),
  part: ({ parts }, name) => wireBytes(parts.get(name) ?? null),
  part_json: ({ parts }, name) => jsonString(parts.get(name) ?? null),
};

/**
 * Assembles the signed bytes; null if the delivery lacks any. If nothing is signed they are the body, so that a secret
 * that is sent along takes as long to check as a signature.
 */
export function signedContent(facts: SignedFacts): Buffer[] | null {
  const { signed } = facts.scheme;
  if (signed.length === 0) return [facts.delivery.body];
  const bytes = signed
    .map((segment) => (typeof segment === 'string' ? Buffer.from(segment) : PIECES[segment.token](facts, segment.name)))
    .filter((piece) => piece !== null);
  return bytes.length < signed.length ? null : bytes;
}

/** The bytes of a text as it was sent: Node decodes each byte as one character. */
function wireBytes(text: string | null): Buffer | null {
  if (text === null) return null;
  const bytes = Buffer.from(text, 'latin1');
  // A character beyond one byte would be cut to some other one.
  return bytes.toString('latin1') === text ? bytes : null;
}

function jsonString(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(JSON.stringify(text));
}

function sha256(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex');
}

/** A form is signed field by field; of any other body the signed address contains the digest. */
function formOrHash({ scheme, delivery, parts }: SignedFacts): Buffer | null {
  if (isForm(delivery)) return sortedForm(delivery.body);
  const digest = scheme.body_hash === null ? null : textAt(scheme.body_hash, delivery, parts);
  return digest === sha256(delivery.body) ? Buffer.alloc(0) : null;
}

export function isForm(delivery: Delivery): boolean {
  return /^application\/x-www-form-urlencoded\s*(;|$)/i.test(onlyHeader(delivery, 'content-type') ?? '');
}

/**
 * Names and values of a form, one after the other without anything between, as Twilio signs them: sorted, and each pair
 * only once. Null if the body is no well-formed form.
 */
function sortedForm(body: Buffer): Buffer | null {
  const text = utf8Text(body);
  if (text === null || percentDecoded(text) === null) return null;
  // The ampersand protects a question mark at the beginning.
  const byName = Map.groupBy(new URLSearchParams(`&${text}`), ([name]) => name);
  const names = [...byName.keys()].toSorted();
  const pairs = names.flatMap((name) =>
    [...new Set(byName.get(name)?.map(([, value]) => value))].toSorted().map((value) => name + value),
  );
  return Buffer.from(pairs.join(''));
}

/**
 * `name:value;name:value`, sorted, of the headers that the delivery lists as signed. An attacker could leave headers out of
 * the list, so it must contain those that the scheme requires, the list itself among them.
 */
function signedHeaders({ scheme, delivery }: SignedFacts): Buffer | null {
  const list = scheme.signed_headers && onlyHeader(delivery, scheme.signed_headers.from.name);
  if (!list) return null;
  const names = list.split(',').map((name) => name.trim().toLowerCase());
  const missing = scheme.signed_headers?.required.some((name) => !names.includes(name));
  if (missing || new Set(names).size < names.length) return null;
  const lines = names.toSorted().map((name) => {
    const value = onlyHeader(delivery, name);
    return value === null ? null : `${name}:${value.trim()}`;
  });
  return lines.includes(null) ? null : wireBytes(lines.join(';'));
}

/** HubSpot decodes only these characters in the address before it signs it. */
const HUBSPOT_DECODES = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80' };

type Form = SignatureScheme['url_form'];

/** Forms in which senders write one address; any of them may be the signed one. */
const FORMS: Readonly<Record<Form, (url: string) => string[]>> = {
  exact: (url) => [url],
  any_port: (url) => [url, withOtherPort(url)],
  // Some of HubSpot's libraries decode everything.
  decoded: (url) => {
    const partly = url.replace(HUBSPOT_DECODES, (code) => percentDecoded(code) ?? code);
    const wholly = percentDecoded(url) ?? partly;
    return [partly, wholly];
  },
};

/**
 * Returns the addresses that may be signed: the public URL of the settings with the query of the delivery. Host and
 * X-Forwarded-* are ignored, because anyone can send them.
 */
export function signedUrls(form: Form, publicUrl: string | null, { path }: Delivery): string[] {
  return FORMS[form](withoutQuery(publicUrl ?? '') + queryOf(path));
}

/** Returns host and path as the sender knows them: a proxy may have changed the path of the public URL. */
export function signedAddress(publicUrl: string | null, { path }: Delivery): { host: string; path: string } {
  if (publicUrl === null) return { host: '', path };
  const ownPath = withoutQuery(publicUrl).replace(/^[a-z]+:\/\/[^/]*/i, '') || '/';
  return { host: new URL(publicUrl).host, path: ownPath + queryOf(path) };
}

function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '');
}

/** With the scheme's default port if none is written, without a port if one is. */
function withOtherPort(url: string): string {
  const [, start = '', scheme = '', host = '', port = '', rest = ''] =
    /^(([a-z]+:)\/\/)((?:\[[^\]]*\]|[^:/?#])*)(:\d+)?(.*)$/is.exec(url) ?? [];
  return port === '' ? `${start}${host}:${DEFAULT_PORTS[scheme.toLowerCase()]}${rest}` : `${start}${host}${rest}`;
}
