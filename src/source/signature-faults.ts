import { methodsOf, type SignatureFields } from './signature-fields.ts';
import { hasToken, type TemplateSegment, type TokenName } from './signature-template.ts';

/** Something wrong with a scheme as a whole, at the field that it concerns. */
export interface SchemeFault {
  path: readonly string[];
  message: string;
}

interface Rule extends SchemeFault {
  isBroken(fields: SignatureFields): boolean;
}

/** Rules about several fields; each is reported at the field that is to be changed. */
const RULES: readonly Rule[] = [
  {
    path: ['type'],
    message: 'expected a type (hmac, hash, ed25519, static or basic), or a base that has one',
    isBroken: ({ type }) => type === undefined,
  },
  {
    path: ['value', 'from'],
    message: 'expected the place of the signature, such as header:x-signature',
    isBroken: ({ value }) => value?.from === undefined,
  },
  {
    path: ['value', 'from'],
    message: 'expected header:<name>: only a secret that is sent along (type static) may stand elsewhere',
    isBroken: (fields) => fields.value?.from?.from === 'json' && (signs(fields) || fields.type === 'basic'),
  },
  {
    path: ['signed'],
    message: 'expected what is signed, such as "{ts}.{body}"',
    isBroken: (fields) => signs(fields) && fields.signed === undefined,
  },
  {
    path: ['signed'],
    message: 'expected no template: with the types static and basic nothing is signed',
    isBroken: (fields) => !signs(fields) && (fields.signed !== undefined || Boolean(fields.timestamp)),
  },
  {
    path: ['signed'],
    message: 'expected a template that covers the body, with {body}, {body_json}, {body_sha256} or {form_sorted}',
    isBroken: (fields) => has(fields) && !has(fields, 'body', 'body_json', 'body_sha256', 'form_sorted'),
  },
  {
    path: ['signed'],
    message: 'expected {ts} in the template: a timestamp that is not signed proves nothing',
    isBroken: (fields) => Boolean(fields.timestamp) && has(fields) && !coversTime(fields),
  },
  {
    path: ['timestamp'],
    message: 'expected the place of the timestamp, such as { from: "header:x-timestamp" }',
    isBroken: (fields) => (Boolean(fields.timestamp) || has(fields, 'ts')) && !fields.timestamp?.from,
  },
  {
    path: ['id'],
    message: 'expected the place of the id that is signed, as a header',
    isBroken: (fields) => has(fields, 'id') && fields.id?.from !== 'header',
  },
  {
    path: ['signed'],
    message: 'expected text between {id} and its neighbour, so that neither can be moved into the other',
    isBroken: ({ signed = [] }) =>
      signed.some((segment, at) => isId(segment) && typeof (signed[at + 1] ?? signed[at - 1]) !== 'string'),
  },
  {
    path: ['algorithm'],
    message: 'expected sha256 or better, or allow_weak: true beside sha1',
    isBroken: (fields) => !fields.allow_weak && methodsOf(fields).some(({ algorithm }) => algorithm === 'sha1'),
  },
  {
    path: ['signed'],
    message: 'expected the secret not at the beginning of what is hashed, or allow_weak: true beside it',
    isBroken: (fields) => !fields.allow_weak && isSecret(fields.signed?.[0]),
  },
  {
    path: ['signed'],
    message: 'expected {secret} in the template of a plain hash, and in no other',
    isBroken: (fields) => has(fields) && (fields.type === 'hash') !== has(fields, 'secret'),
  },
  {
    path: ['key_encoding'],
    message: 'expected hex, base64 or whpk, as a public key of ed25519 is written',
    isBroken: (fields) =>
      methodsOf(fields).some(({ type, key_encoding }) => type === 'ed25519' && /^(utf8|whsec)$/.test(key_encoding)),
  },
  {
    path: ['item'],
    message: 'expected the name of the items that hold the signature, such as v1; and none where parse is plain',
    isBroken: (fields) => methodsOf(fields).some(({ item }) => (item === null) !== isPlain(fields)),
  },
  {
    path: ['also'],
    message: 'expected methods of a header that is parsed as kv, list or slashes, each with another item',
    isBroken: (fields) =>
      new Set(methodsOf(fields).map(({ item }) => item)).size !== methodsOf(fields).length ||
      (fields.also ?? []).some(({ type }) => type !== 'hmac' && type !== 'ed25519'),
  },
  {
    path: ['value', 'parse'],
    message: 'expected kv, because parts of the header are used',
    isBroken: (fields) =>
      fields.value?.parse !== 'kv' &&
      (has(fields, 'part', 'part_json') || fields.timestamp?.from?.from === 'part' || fields.id?.from === 'part'),
  },
  {
    path: ['value', 'parse'],
    message: 'expected plain: a secret that is sent along stands alone',
    isBroken: (fields) => !isPlain(fields) && !signs(fields),
  },
  {
    path: ['value', 'prefix'],
    message: 'expected a prefix only where parse is plain',
    isBroken: (fields) => !isPlain(fields) && Boolean(fields.value?.prefix),
  },
  {
    path: ['signed_headers'],
    message: 'expected from and a list of required headers, for {signed_headers} in the template and only for it',
    isBroken: (fields) => has(fields, 'signed_headers') !== Boolean(fields.signed_headers?.from && requires(fields)),
  },
  {
    path: ['body_hash'],
    message: 'expected the place of the digest of a body that is no form, for {form_sorted} and only for it',
    isBroken: (fields) => has(fields, 'form_sorted') !== (fields.body_hash !== undefined),
  },
  {
    path: ['families'],
    message: 'expected families where header names hold {family}, and only there',
    isBroken: (fields) => (fields.families !== undefined) !== namesFamily(fields),
  },
];

/** All broken rules of a scheme whose fields are valid one by one. */
export function schemeFaults(fields: SignatureFields): SchemeFault[] {
  return RULES.filter((rule) => rule.isBroken(fields)).map(({ path, message }) => ({ path, message }));
}

function signs({ type }: SignatureFields): boolean {
  return type !== 'static' && type !== 'basic';
}

function has({ signed }: SignatureFields, ...tokens: readonly TokenName[]): boolean {
  return signed !== undefined && (tokens.length === 0 || hasToken(signed, ...tokens));
}

function coversTime(fields: SignatureFields): boolean {
  const from = fields.timestamp?.from;
  const required = fields.signed_headers?.required ?? [];
  return (
    has(fields, 'ts') || (has(fields, 'signed_headers') && required.some((name) => name.toLowerCase() === from?.name))
  );
}

function isPlain({ value }: SignatureFields): boolean {
  return (value?.parse ?? 'plain') === 'plain';
}

function isId(segment: TemplateSegment): boolean {
  return typeof segment !== 'string' && segment.token === 'id';
}

function isSecret(segment: TemplateSegment | undefined): boolean {
  return typeof segment === 'object' && segment.token === 'secret';
}

function requires({ signed_headers }: SignatureFields): boolean {
  return (signed_headers?.required ?? []).length > 0;
}

function namesFamily(fields: SignatureFields): boolean {
  const places = [fields.value?.from, fields.timestamp?.from, fields.id, fields.signed_headers?.from, fields.body_hash];
  return places.some((place) => place?.name.includes('{family}'));
}
