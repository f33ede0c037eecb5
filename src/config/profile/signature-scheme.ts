import { z } from 'zod';
import { challengeSchema, deliveryFieldSchema, duration } from './basic-fields.ts';
import { SIGNATURE_PRESET_NAMES, SIGNATURE_PRESETS } from './signature-presets.ts';

/** The tokens of a template of signed content, in braces; those with `named` are followed by a colon and a name. */
const TOKENS = {
  /** The delivery's id, as text. */
  id: { named: false },
  /** The timestamp, as it was sent. */
  ts: { named: false },
  /** The raw bytes of the body. */
  body: { named: false },
  /** The body as a JSON string, quotes included. */
  body_json: { named: false },
  /** SHA-256 of the body in hexadecimal. */
  body_sha256: { named: false },
  method: { named: false },
  /** The public URL with the query of this delivery. */
  url: { named: false },
  /** Path and query. */
  path: { named: false },
  /** Host and port of the public URL. */
  host: { named: false },
  /** Names and values of a form, sorted by name; empty if the body is not a form. */
  form_sorted: { named: false },
  /** `name:value;name:value` of the headers that the delivery lists as signed. */
  signed_headers: { named: false },
  /** The secret itself, for a plain hash. */
  secret: { named: false },
  header: { named: true },
  /** A part of the signature header. */
  part: { named: true },
  /** The same as a JSON string. */
  part_json: { named: true },
} as const;

export type TokenName = keyof typeof TOKENS;

/** A literal text, or a token with the name after its colon ('' if it has none). */
export type TemplateSegment = string | { readonly token: TokenName; readonly name: string };

const PIECE = /\{\{|\}\}|\{(?<token>[a-z0-9_]+)(?::(?<name>[\w-]+))?\}|[^{}]+|[{}]/g;

/** Parses `{id}.{ts}.{body}`; returns its segments, or the fault. `{{` and `}}` are literal braces. */
function parseTemplate(text: string): { segments: TemplateSegment[] } | { fault: string } {
  const segments: TemplateSegment[] = [];
  for (const { 0: piece, groups } of text.matchAll(PIECE)) {
    if (piece === '{' || piece === '}') return { fault: 'expected {{ and }} for braces that are meant as such' };
    const token = groups?.['token'];
    const name = groups?.['name'] ?? '';
    if (token === undefined) segments.push(piece === '{{' || piece === '}}' ? piece.slice(1) : piece);
    else if (!isToken(token)) return { fault: `expected tokens out of ${tokenList()}` };
    else if (TOKENS[token].named !== (name !== '')) return { fault: `expected {${written(token)}}` };
    else segments.push({ token, name: token === 'header' ? name.toLowerCase() : name });
  }
  return { segments };
}

/** True if the template holds one of these tokens, under any name. */
export function hasToken(segments: readonly TemplateSegment[], ...tokens: readonly TokenName[]): boolean {
  return segments.some((segment) => typeof segment !== 'string' && tokens.includes(segment.token));
}

function isToken(word: string): word is TokenName {
  return Object.hasOwn(TOKENS, word);
}

function written(token: TokenName): string {
  return TOKENS[token].named ? `${token}:<name>` : token;
}

function tokenList(): string {
  return Object.keys(TOKENS)
    .filter(isToken)
    .map((token) => `{${written(token)}}`)
    .join(' ');
}

/** How a delivery is verified: a keyed or plain digest, a public key, or a secret in the request. */
const TYPES = ['hmac', 'hash', 'ed25519', 'static', 'basic'] as const;
const ALGORITHMS = ['sha1', 'sha256', 'sha384', 'sha512'] as const;
/** How a secret is written; `whsec` and `whpk` are Standard Webhooks' prefixes with base64 behind them. */
const KEY_ENCODINGS = ['utf8', 'base64', 'hex', 'whsec', 'whpk'] as const;
/** How the signature header is cut: it is the signature (`plain`), `name=value` items (`kv`), or `version,signature` items (`list`). */
const PARSES = ['plain', 'kv', 'list'] as const;
const ENCODINGS = ['hex', 'base64', 'base64url'] as const;
const UNITS = ['s', 'ms', 'iso'] as const;
/** The public URL as it is; with and without its default port; percent-decoded as HubSpot does. */
const URL_FORMS = ['exact', 'any_port', 'decoded'] as const;
const CHALLENGES = ['slack', 'discord', 'meta', 'msgraph', 'zoom'] as const;

const FAMILY = String.raw`(?:\{family\})?`;
const header = deliveryFieldSchema(['header'], FAMILY);
const word = z.string().regex(/^[A-Za-z0-9_-]+$/, 'expected a word of letters, digits, _ and -');
const tolerance = duration.refine((ms) => ms >= 1_000, 'expected a tolerance of at least 1s');

const method = {
  type: z.enum(TYPES),
  /** SHA-1 only with `allow_weak`. */
  algorithm: z.enum(ALGORITHMS).optional(),
  key_encoding: z.enum(KEY_ENCODINGS).optional(),
  /** Name of the items that carry this method's signature: `v1`. */
  item: word.optional(),
};

/** A scheme as it is written in a profile; with `base`, only what differs. */
const signatureFields = z.strictObject({
  /** Preset whose fields hold unless they are given here. */
  base: z.enum(SIGNATURE_PRESET_NAMES).optional(),
  ...method,
  type: method.type.optional(),
  /** Allows SHA-1, and plain hashes that begin with the secret: for senders that know nothing better. */
  allow_weak: z.boolean().optional(),
  /** Further methods in the same header; a secret belongs to the method that its form fits. */
  also: z.array(z.strictObject(method)).max(3).optional(),
  /** Values of `{family}` in header names; the first one whose signature is present counts. */
  families: z.array(word).min(1).max(4).optional(),
  /** Location of the signature, or of the secret itself. */
  value: z
    .strictObject({
      from: deliveryFieldSchema(['header', 'query', 'json'], FAMILY).optional(),
      parse: z.enum(PARSES).optional(),
      /** Text between items; any of these if several are given. */
      separator: z.union([separator(), z.array(separator()).min(1)]).optional(),
      /** Text before the signature: `sha256=`. */
      prefix: z.string().max(40).optional(),
      encoding: z.enum(ENCODINGS).optional(),
    })
    .optional(),
  /** Null if the scheme signs no time. */
  timestamp: z
    .strictObject({
      from: deliveryFieldSchema(['header', 'part'], FAMILY).optional(),
      unit: z.enum(UNITS).optional(),
      past: tolerance.optional(),
      future: tolerance.optional(),
    })
    .nullable()
    .optional(),
  /** Identifies a delivery and stays the same when it is repeated. */
  id: deliveryFieldSchema(['header', 'json', 'part', 'query', 'sha256'], FAMILY).optional(),
  /** The signed content: text with tokens such as `{ts}.{body}`. */
  signed: z.string().min(1).max(500).transform(readTemplate).optional(),
  /** For `{signed_headers}`: the header that lists the signed ones, and those that must be among them. */
  signed_headers: z.strictObject({ from: header.optional(), required: z.array(z.string()).optional() }).optional(),
  /** For `{form_sorted}`: location of the SHA-256 of a body that is no form. */
  body_hash: deliveryFieldSchema(['query', 'header'], FAMILY).optional(),
  url_form: z.enum(URL_FORMS).optional(),
  challenge: z
    .union([z.enum(CHALLENGES), challengeSchema])
    .nullable()
    .optional()
    .meta({
      description: 'How the sender tests a new address: a known challenge by name, or the fields below.',
      examples: ['meta', { method: 'GET', echo: 'query:challenge' }],
    }),
});

type SignatureFields = z.output<typeof signatureFields>;

function separator() {
  return z.string().regex(/^[,; ]{1,2}$/, 'expected a separator of commas, semicolons and blanks');
}

function readTemplate(text: string, context: z.RefinementCtx): readonly TemplateSegment[] {
  const parsed = parseTemplate(text);
  if ('segments' in parsed) return parsed.segments;
  context.issues.push({ code: 'custom', message: parsed.fault, input: text });
  return z.NEVER;
}

/** One way in which a delivery may be signed. */
export interface SignatureMethod {
  readonly type: NonNullable<SignatureFields['type']>;
  readonly algorithm: NonNullable<SignatureFields['algorithm']>;
  readonly key_encoding: NonNullable<SignatureFields['key_encoding']>;
  /** Name of the items that carry its signature; null if the header is the signature and nothing else. */
  readonly item: string | null;
}

/** The scheme's own method first, then those of `also`. */
function signatureMethods(fields: SignatureFields): SignatureMethod[] {
  return [{ ...fields, type: fields.type ?? 'hmac' }, ...(fields.also ?? [])].map((given) => ({
    type: given.type,
    algorithm: given.algorithm ?? 'sha256',
    key_encoding: given.key_encoding ?? 'utf8',
    item: given.item ?? null,
  }));
}

interface Rule {
  path: readonly string[];
  message: string;
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
    isBroken: (fields) => !fields.allow_weak && signatureMethods(fields).some(({ algorithm }) => algorithm === 'sha1'),
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
      signatureMethods(fields).some(
        ({ type, key_encoding }) => type === 'ed25519' && /^(utf8|whsec)$/.test(key_encoding),
      ),
  },
  {
    path: ['item'],
    message: 'expected the name of the items that hold the signature, such as v1; and none where parse is plain',
    isBroken: (fields) => signatureMethods(fields).some(({ item }) => (item === null) !== isPlain(fields)),
  },
  {
    path: ['also'],
    message: 'expected methods of a header that is parsed as kv or list, each with another item',
    isBroken: (fields) =>
      new Set(signatureMethods(fields).map(({ item }) => item)).size !== signatureMethods(fields).length ||
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
    isBroken: (fields) =>
      has(fields, 'signed_headers') !== Boolean(fields.signed_headers?.from && fields.signed_headers.required?.length),
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

function namesFamily(fields: SignatureFields): boolean {
  const places = [fields.value?.from, fields.timestamp?.from, fields.id, fields.signed_headers?.from, fields.body_hash];
  return places.some((place) => place?.name.includes('{family}'));
}

/** A preset's name, or a scheme as data: no code per sender. */
export const signatureSchema = z
  .union([z.enum(SIGNATURE_PRESET_NAMES), signatureFields])
  .transform((given, context) => {
    const fields = withBase(typeof given === 'string' ? { base: given } : given);
    for (const { path, message } of RULES.filter((rule) => rule.isBroken(fields))) {
      context.issues.push({ code: 'custom', path: [...path], message, input: given });
    }
    return fillScheme(fields);
  });

/** True if the sender signs the address that it delivers to, so that the settings need `public_url`. */
export function needsPublicUrl(scheme: SignatureScheme): boolean {
  return hasToken(scheme.signed, 'url', 'host');
}

/** A scheme with everything filled in; times in milliseconds. Names of headers may hold `{family}`. */
export type SignatureScheme = ReturnType<typeof fillScheme>;

/** Five minutes, as the libraries of Standard Webhooks have it. */
const TOLERANCE_MS = 300_000;

const NOWHERE = { from: 'header', name: '' } as const;
const BODY_DIGEST = { from: 'sha256', name: 'body' } as const;

/** The fields laid over those of their base; maps within are merged, lists and plain values replaced. */
function withBase({ base, ...own }: SignatureFields): SignatureFields {
  if (base === undefined) return own;
  const below = withBase(signatureFields.parse(SIGNATURE_PRESETS[base]));
  const timestamp = own.timestamp === null ? null : mergeMaps(below.timestamp, own.timestamp);
  const signed_headers = mergeMaps(below.signed_headers, own.signed_headers);
  return { ...below, ...own, value: { ...below.value, ...own.value }, timestamp, signed_headers };
}

function mergeMaps<T extends object>(below: T | null | undefined, own: T | undefined): T | undefined {
  if (below === undefined || below === null) return own;
  return { ...below, ...own };
}

/** Makes a scheme of fields that break no rule. */
function fillScheme(fields: SignatureFields) {
  const { value = {}, timestamp, signed_headers } = fields;
  const { separator = ',' } = value;
  return {
    methods: signatureMethods(fields),
    /** Values of `{family}`; one empty text if there are no families. */
    families: fields.families ?? [''],
    value: {
      from: value.from ?? NOWHERE,
      parse: value.parse ?? 'plain',
      /** Any of these separates two items. */
      separator: typeof separator === 'string' ? [separator] : separator,
      prefix: value.prefix ?? '',
      encoding: value.encoding ?? 'hex',
    },
    timestamp: timestamp ? fillTime(timestamp) : null,
    id: fields.id ?? BODY_DIGEST,
    /** Empty if nothing is signed, because the secret itself is sent. */
    signed: fields.signed ?? [],
    signed_headers: signed_headers === undefined ? null : fillHeaders(signed_headers),
    body_hash: fields.body_hash ?? null,
    url_form: fields.url_form ?? 'exact',
    challenge: fields.challenge ?? null,
  };
}

function fillTime(given: NonNullable<SignatureFields['timestamp']>) {
  const { from = NOWHERE, unit = 's', past = TOLERANCE_MS, future = TOLERANCE_MS } = given;
  return { from, unit, past, future };
}

function fillHeaders({ from = NOWHERE, required = [] }: NonNullable<SignatureFields['signed_headers']>) {
  return { from, required: required.map((name) => name.toLowerCase()) };
}
