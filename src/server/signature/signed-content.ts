import type { SignatureScheme, TokenName } from '../../config/profile/signature-scheme.ts';
import { percentDecoded, queryOf, onlyHeader, textAt, utf8Text, type Parts, type Delivery } from './delivery.ts';
import { createHash } from 'node:crypto';

/** Everything that signed content may be made of. */
interface Facts {
  scheme: SignatureScheme;
  delivery: Delivery;
  parts: Parts;
  id: string;
  ts: string;
  url: string;
  host: string;
  /** Path and query. */
  path: string;
  /** For plain hashes. */
  secret: Buffer;
}

/** Returns null if the delivery lacks what is to be signed, or has it in a form that nobody signs. */
type Piece = (facts: Facts, name: string) => Buffer | null;

const EMPTY = Buffer.alloc(0);

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
  form_sorted: (facts) => formOrHash(facts),
  signed_headers: (facts) => signedHeaders(facts),
  secret: ({ secret }) => secret,
  header: ({ delivery }, name) => wireBytes(onlyHeader(delivery, name)),
  part: ({ parts }, name) => wireBytes(parts.get(name) ?? null),
  part_json: ({ parts }, name) => jsonString(parts.get(name) ?? null),
};

/**
 * Makes the function that puts together the bytes that were signed; it returns null if they cannot be. If nothing is
 * signed it is the body, so that a secret that is sent along takes as long to check as a signature.
 */
export function contentWriter(scheme: SignatureScheme): (facts: Facts) => Buffer[] | null {
  if (scheme.signed.length === 0) return ({ delivery }) => [delivery.body];
  const pieces = scheme.signed.map((segment): ((facts: Facts) => Buffer | null) => {
    if (typeof segment === 'string') {
      const literal = Buffer.from(segment);
      return () => literal;
    }
    const { token, name } = segment;
    return (facts) => PIECES[token](facts, name);
  });
  return (facts) => {
    const bytes = pieces.map((piece) => piece(facts)).filter((piece) => piece !== null);
    return bytes.length < pieces.length ? null : bytes;
  };
}

/** The bytes of a text as it came over the wire: Node reads one byte as one character. */
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

/** A form is signed field by field; of any other body the digest is sent, and signed with the address it stands in. */
function formOrHash({ scheme, delivery, parts }: Facts): Buffer | null {
  if (isForm(delivery)) return wireText(sortedForm(delivery.body));
  const digest = scheme.body_hash === null ? null : textAt(scheme.body_hash, delivery, parts);
  return digest === sha256(delivery.body) ? EMPTY : null;
}

function wireText(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text);
}

export function isForm(delivery: Delivery): boolean {
  return /^application\/x-www-form-urlencoded\s*(;|$)/i.test(onlyHeader(delivery, 'content-type') ?? '');
}

/**
 * Names and values of a form, one after the other without anything between, as Twilio signs them: sorted by name,
 * values of one name sorted and each only once. Null if the body is no well-formed form.
 */
function sortedForm(body: Buffer): string | null {
  const text = utf8Text(body);
  if (text === null) return null;
  const values = new Map<string, Set<string>>();
  for (const pair of text.split('&').filter((piece) => piece !== '')) {
    const equals = pair.includes('=') ? pair.indexOf('=') : pair.length;
    const name = formDecoded(pair.slice(0, equals));
    const value = formDecoded(pair.slice(equals + 1));
    if (name === null || value === null) return null;
    values.set(name, (values.get(name) ?? new Set()).add(value));
  }
  const names = [...values.keys()].toSorted();
  return names.flatMap((name) => [...(values.get(name) ?? [])].toSorted().map((value) => name + value)).join('');
}

function formDecoded(text: string): string | null {
  return percentDecoded(text.replaceAll('+', ' '));
}

/**
 * `name:value;name:value`, sorted, of the headers that the delivery lists as signed. Who made the list could leave out
 * what matters, so that the scheme's own minimum must be in it, the list itself among it.
 */
function signedHeaders({ scheme, delivery }: Facts): Buffer | null {
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

/** The characters that HubSpot decodes in the address before it signs it, by its own table; it decodes no others. */
const HUBSPOT_DECODES = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80' };

type Form = SignatureScheme['url_form'];

/** Ways in which a sender may have written one address. Any of them may be the signed one; all are of this address. */
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
 * Makes the function that says what the sender may have taken for our address: the public URL from the settings with
 * the query of the delivery. Host and X-Forwarded-* are never looked at, because anyone can send them.
 */
export function urlForms(form: Form, publicUrl: string | null): (target: string) => string[] {
  const base = withoutQuery(publicUrl ?? '');
  return (target) => FORMS[form](base + queryOf(target));
}

/** Path and query as the sender knows them: with a public URL its path, which a proxy may have changed on the way. */
export function signedPath(publicUrl: string | null): (target: string) => string {
  if (publicUrl === null) return (target) => target;
  const path = withoutQuery(publicUrl).replace(/^[a-z]+:\/\/[^/]*/i, '') || '/';
  return (target) => path + queryOf(target);
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
