// Assembles the bytes that a sender has signed, by the template of the signature scheme.
import { createHash } from 'node:crypto';
import type { SignatureScheme, TokenName } from '../../config/profile/signature-scheme.ts';
import { type Delivery, onlyHeader, queryOf, type SignatureParts } from './delivery.ts';

interface SignedFacts {
  scheme: SignatureScheme;
  delivery: Delivery;
  parts: SignatureParts;
  id: string;
  ts: string;
  publicUrl: string | null;
}

/** The bytes of each token; null if the delivery has no such piece, or one that no sender signs. */
const TOKEN_BYTES: Readonly<Record<TokenName, (facts: SignedFacts, name: string) => Buffer | null>> = {
  id: ({ id }) => wireBytes(id),
  ts: ({ ts }) => wireBytes(ts),
  body: ({ delivery }) => delivery.body,
  body_sha256: ({ delivery }) => Buffer.from(createHash('sha256').update(delivery.body).digest('hex')),
  method: ({ delivery }) => wireBytes(delivery.method),
  url: ({ publicUrl, delivery }) => Buffer.from(withoutQuery(publicUrl ?? '') + queryOf(delivery.path)),
  path: ({ publicUrl, delivery }) => wireBytes(signedPath(publicUrl, delivery)),
  host: ({ publicUrl }) => Buffer.from(publicUrl === null ? '' : new URL(publicUrl).host),
  signed_headers: listedHeaders,
  header: ({ delivery }, name) => wireBytes(onlyHeader(delivery, name)),
  part: ({ parts }, name) => wireBytes(parts.get(name) ?? null),
};

/**
 * Assembles the signed bytes; null if the delivery lacks any. The address is that of the settings with the query of the
 * delivery: Host and X-Forwarded-* are ignored, because anyone can send them.
 */
export function signedContent(facts: SignedFacts): Buffer[] | null {
  const bytes = facts.scheme.signed.map((segment) =>
    typeof segment === 'string' ? Buffer.from(segment) : TOKEN_BYTES[segment.token](facts, segment.name),
  );
  return bytes.every((piece) => piece !== null) ? bytes : null;
}

/** The bytes of a text as it was sent: Node decodes each byte as one character. */
function wireBytes(text: string | null): Buffer | null {
  if (text === null) return null;
  const bytes = Buffer.from(text, 'latin1');
  // A character beyond one byte would be cut to some other one.
  return bytes.toString('latin1') === text ? bytes : null;
}

/**
 * `name:value;name:value`, sorted, of the headers that the delivery lists as signed. An attacker could leave headers out of
 * the list, so it must contain those that the scheme requires, the list itself among them.
 */
function listedHeaders({ scheme, delivery }: SignedFacts): Buffer | null {
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

/** Returns path and query as the sender knows them: a proxy may have changed the path of the public URL. */
function signedPath(publicUrl: string | null, { path }: Delivery): string {
  if (publicUrl === null) return path;
  return (withoutQuery(publicUrl).replace(/^[a-z]+:\/\/[^/]*/i, '') || '/') + queryOf(path);
}

function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '');
}
