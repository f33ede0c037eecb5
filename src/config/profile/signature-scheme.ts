/**
 * The field `webhooks` of a profile: how deliveries are signed (`signatureSchema`, first half), and where an event names its
 * record (`webhooksSchema`). A scheme is for example an HMAC of `{ts}.{body}`, in hex, in the header `x-signature`. One that
 * would let a forged delivery pass is refused, such as a signature that does not cover the body.
 */
import { z } from 'zod';
import { bodyPath, documented, duration, oneOrMore, withExamples } from './basic-fields.ts';
import {
  challengeSchema,
  deliveryFieldSchema,
  eventConditionsSchema,
  type EventField,
  eventFieldSchema,
  eventFieldsSchema,
} from './delivery-fields.ts';
import { SIGNATURE_PRESET_NAMES, SIGNATURE_PRESETS } from './signature-presets.ts';

/** The tokens of a template of signed content, in braces: `{id}.{ts}.{body}`. */
const TOKENS = [
  /** The delivery's id and timestamp, as they were sent. */
  'id',
  'ts',
  /** The raw bytes of the body, or their SHA-256 in hexadecimal. */
  'body',
  'body_sha256',
  'method',
  /** The public URL with the query of this delivery; path and query; host and port of the public URL. */
  'url',
  'path',
  'host',
  /** `name:value;name:value` of the headers that the delivery lists as signed. */
  'signed_headers',
  /** `{header:<name>}`, and `{part:<name>}` of the signature header. */
  'header',
  'part',
] as const;
const NAMED_TOKENS: ReadonlySet<string> = new Set<TokenName>(['header', 'part']);

export type TokenName = (typeof TOKENS)[number];

/** A literal text, or a token with the name after its colon ('' if it has none). */
export type TemplateSegment = string | { readonly token: TokenName; readonly name: string };

const SEGMENT = /\{(?<token>[a-z0-9_]+)(?::(?<name>[\w-]+))?\}|[^{}]+|[{}]/g;

/** Parses a template of signed content; adds an issue for an unknown token. */
function readTemplate(text: string, context: z.RefinementCtx): readonly TemplateSegment[] {
  const segments: TemplateSegment[] = [];
  for (const { 0: segment, groups } of text.matchAll(SEGMENT)) {
    const name = groups?.['name'] ?? '';
    const token = TOKENS.find((each) => each === groups?.['token']);
    const isToken = token !== undefined && NAMED_TOKENS.has(token) === (name !== '');
    if (isToken) segments.push({ token, name: token === 'header' ? name.toLowerCase() : name });
    else if (!/[{}]/.test(segment)) segments.push(segment);
    else {
      const tokens = TOKENS.map((each) => (NAMED_TOKENS.has(each) ? `{${each}:<name>}` : `{${each}}`));
      context.issues.push({ code: 'custom', message: `expected tokens out of ${tokens.join(' ')}`, input: text });
      return z.NEVER;
    }
  }
  return segments;
}

/** True if the template holds one of these tokens, under any name. */
export function hasToken(segments: readonly TemplateSegment[], ...tokens: readonly TokenName[]): boolean {
  return segments.some((segment) => typeof segment !== 'string' && tokens.includes(segment.token));
}

const FAMILY = String.raw`(?:\{family\})?`;
const word = z.string().regex(/^[A-Za-z0-9_-]+$/, 'expected a word of letters, digits, _ and -');
const tolerance = duration.refine((ms) => ms >= 1_000, 'expected a tolerance of at least 1s');
const separator = z.string().regex(/^[,; ]{1,2}$/, 'expected a separator of commas, semicolons and blanks');

const methodFields = {
  /** A keyed digest, a public key, or a secret in the request. */
  type: z.enum(['hmac', 'ed25519', 'static', 'basic']),
  /** SHA-1 only with `allow_weak`. */
  algorithm: z.enum(['sha1', 'sha256', 'sha384', 'sha512']).optional(),
  /** How a secret is written; `whsec` and `whpk` are the prefixes of Standard Webhooks, with base64 after them. */
  key_encoding: z.enum(['utf8', 'base64', 'hex', 'whsec', 'whpk']).optional(),
  /** Name of the items that carry this method's signature: `v1`. */
  item: word.optional(),
};

/** A signature scheme as a profile has it; with `base`, only the differences from that preset. */
const signatureFields = z.strictObject({
  /** Preset whose fields apply unless they are given here. */
  base: z.enum(SIGNATURE_PRESET_NAMES).optional(),
  ...methodFields,
  type: methodFields.type.optional(),
  /** Allows SHA-1, for senders that support nothing better. */
  allow_weak: z.boolean().optional(),
  /** Further methods in the same header; a secret belongs to the method that its form fits. */
  also: z.array(z.strictObject(methodFields)).max(3).optional(),
  /** Values of `{family}` in header names; the first one whose signature is present counts. */
  families: z.array(word).min(1).max(4).optional(),
  /** Location of the signature, or of the secret itself. */
  value: z
    .strictObject({
      from: deliveryFieldSchema(['header', 'query', 'json'], FAMILY).optional(),
      /** The header is the signature (`plain`), has `name=value` items (`kv`), or `version,signature` items (`list`). */
      parse: z.enum(['plain', 'kv', 'list']).optional(),
      /** Text between items; any of these if several are given. */
      separator: z.union([separator, z.array(separator).min(1)]).optional(),
      /** Text before the signature: `sha256=`. */
      prefix: z.string().max(40).optional(),
      encoding: z.enum(['hex', 'base64', 'base64url']).optional(),
    })
    .optional(),
  /** Null if the scheme signs no time. */
  timestamp: z
    .strictObject({
      from: deliveryFieldSchema(['header', 'part'], FAMILY).optional(),
      unit: z.enum(['s', 'ms', 'iso']).optional(),
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
  signed_headers: z
    .strictObject({
      from: deliveryFieldSchema(['header'], FAMILY).optional(),
      required: z.array(z.string().toLowerCase()).optional(),
    })
    .optional(),
  challenge: z
    .union([z.enum(['slack', 'discord', 'meta', 'msgraph', 'zoom']), challengeSchema])
    .nullable()
    .optional()
    .meta({
      description: 'How the sender tests a new address: a known challenge by name, or the fields below.',
      examples: ['meta', { method: 'GET', echo: 'query:challenge' }],
    }),
});

type SignatureFields = z.output<typeof signatureFields>;

/** One way in which a delivery may be signed. */
export interface SignatureMethod {
  readonly type: NonNullable<SignatureFields['type']>;
  readonly algorithm: NonNullable<SignatureFields['algorithm']>;
  readonly key_encoding: NonNullable<SignatureFields['key_encoding']>;
  /** Name of the items that carry its signature; null if the header is the signature and nothing else. */
  readonly item: string | null;
}

/** Returns the method of the scheme, then those of `also`. */
function signatureMethods({ also = [], type = 'hmac', ...first }: SignatureFields): SignatureMethod[] {
  return [{ ...first, type }, ...also].map((method) => ({
    type: method.type,
    algorithm: method.algorithm ?? 'sha256',
    key_encoding: method.key_encoding ?? 'utf8',
    item: method.item ?? null,
  }));
}

type SchemeFault = [path: string, message: string];

/** Yields faults of the signature: its location, encoding and methods. */
function* findSignatureFaults(fields: SignatureFields): Iterable<SchemeFault> {
  const { type, value = {}, signed = [], signed_headers: list, timestamp, id, families, also = [] } = fields;
  const { from, parse = 'plain' } = value;
  const methods = signatureMethods(fields);
  const items = new Set(methods.map(({ item }) => item));
  if (type === undefined) yield ['type', 'expected a type (hmac, ed25519, static or basic), or a base that has one'];
  if (from === undefined) yield ['value.from', 'expected the place of the signature, such as header:x-signature'];
  if (from?.from === 'json' && type !== 'static') {
    yield ['value.from', 'expected header:<name>: only a secret that is sent along (type static) may be elsewhere'];
  }
  if (!fields.allow_weak && methods.some(({ algorithm }) => algorithm === 'sha1')) {
    yield ['algorithm', 'expected sha256 or better, or allow_weak: true beside sha1'];
  }
  if (methods.some((method) => method.type === 'ed25519' && ['utf8', 'whsec'].includes(method.key_encoding))) {
    yield ['key_encoding', 'expected hex, base64 or whpk, as a public key of ed25519 is written'];
  }
  if (methods.some(({ item }) => (item === null) !== (parse === 'plain'))) {
    yield ['item', 'expected the name of the items that hold the signature, such as v1; and none if parse is plain'];
  }
  if (items.size < methods.length || also.some((method) => method.type !== 'hmac' && method.type !== 'ed25519')) {
    yield ['also', 'expected methods of a header that is parsed as kv or list, each with another item'];
  }
  const usesParts = hasToken(signed, 'part') || timestamp?.from?.from === 'part' || id?.from === 'part';
  if (parse !== 'kv' && usesParts) yield ['value.parse', 'expected kv, because parts of the header are used'];
  if (parse !== 'plain' && isSecretSent(fields)) {
    yield ['value.parse', 'expected plain: a secret that is sent along has no items'];
  }
  if (parse !== 'plain' && value.prefix) yield ['value.prefix', 'expected a prefix only if parse is plain'];
  const hasFamily = [from, timestamp?.from, id, list?.from].some((field) => field?.name.includes('{family}'));
  if (hasFamily !== (families !== undefined)) {
    yield ['families', 'expected families where header names hold {family}, and only there'];
  }
}

/** Yields faults of the template of signed content. */
function* findTemplateFaults(fields: SignatureFields): Iterable<SchemeFault> {
  const { signed, signed_headers: list, timestamp, id } = fields;
  const has = (...tokens: TokenName[]): boolean => signed !== undefined && hasToken(signed, ...tokens);
  if (signed === undefined && !isSecretSent(fields)) {
    yield ['signed', 'expected what is signed, such as "{ts}.{body}"'];
  }
  if (isSecretSent(fields) && (signed !== undefined || timestamp)) {
    yield ['signed', 'expected no template: with the types static and basic nothing is signed'];
  }
  if (signed !== undefined && !has('body', 'body_sha256')) {
    yield ['signed', 'expected a template that covers the body, with {body} or {body_sha256}'];
  }
  const isTimeListed = has('signed_headers') && list?.required?.includes(timestamp?.from?.name ?? '') === true;
  if (timestamp && signed !== undefined && !has('ts') && !isTimeListed) {
    yield ['signed', 'expected {ts} in the template: a timestamp that is not signed proves nothing'];
  }
  if ((timestamp || has('ts')) && !timestamp?.from) {
    yield ['timestamp', 'expected the place of the timestamp, such as { from: "header:x-timestamp" }'];
  }
  if (has('id') && id?.from !== 'header') yield ['id', 'expected the place of the id that is signed, as a header'];
  // Without a literal text beside it, characters could move between the id and the next value under the same signature.
  const isIdUnbounded = signed?.some(
    (segment, at) => hasToken([segment], 'id') && typeof (signed[at + 1] ?? signed[at - 1]) !== 'string',
  );
  if (isIdUnbounded) yield ['signed', 'expected text between {id} and its neighbour, so that neither can be moved'];
  if (has('signed_headers') !== Boolean(list?.from && list.required?.length)) {
    yield ['signed_headers', 'expected from and a list of required headers, exactly if {signed_headers} is signed'];
  }
}

/** True if the secret itself is in the request, and nothing is signed. */
function isSecretSent({ type }: SignatureFields): boolean {
  return type === 'static' || type === 'basic';
}

/** The name of a preset, or a scheme; parsed to a `SignatureScheme`. */
export const signatureSchema = z
  .union([z.enum(SIGNATURE_PRESET_NAMES), signatureFields])
  .transform((given, context) => {
    const fields = withBase(typeof given === 'string' ? { base: given } : given);
    for (const [path, message] of [...findSignatureFaults(fields), ...findTemplateFaults(fields)]) {
      context.issues.push({ code: 'custom', path: path.split('.'), message, input: given });
    }
    return fillScheme(fields);
  });

/** True if the sender signs the webhook URL, so that the settings need `public_url`. */
export function needsPublicUrl(scheme: SignatureScheme): boolean {
  return hasToken(scheme.signed, 'url', 'host');
}

/** A scheme after defaults are filled in; times in milliseconds. Names of headers may contain `{family}`. */
export type SignatureScheme = ReturnType<typeof fillScheme>;

/** Five minutes, as the libraries of Standard Webhooks have it. */
const TOLERANCE_MS = 300_000;

const NO_HEADER = { from: 'header', name: '' } as const;

/** Merges the fields with those of their base: maps are merged, lists and scalars replaced. */
function withBase({ base, ...given }: SignatureFields): SignatureFields {
  if (base === undefined) return given;
  const inherited = withBase(signatureFields.parse(SIGNATURE_PRESETS[base]));
  return {
    ...inherited,
    ...given,
    value: { ...inherited.value, ...given.value },
    timestamp: given.timestamp === null ? null : mergeMaps(inherited.timestamp, given.timestamp),
    signed_headers: mergeMaps(inherited.signed_headers, given.signed_headers),
  };
}

function mergeMaps<T extends object>(inherited: T | null | undefined, given: T | undefined): T | undefined {
  return inherited ? { ...inherited, ...given } : given;
}

/** Fills in the defaults. */
function fillScheme(fields: SignatureFields) {
  const { value = {}, timestamp, signed_headers } = fields;
  return {
    methods: signatureMethods(fields),
    /** Values of `{family}`; one empty text if there are no families. */
    families: fields.families ?? [''],
    value: {
      from: value.from ?? NO_HEADER,
      parse: value.parse ?? 'plain',
      /** Any of these separates two items. */
      separator: [value.separator ?? ','].flat(),
      prefix: value.prefix ?? '',
      encoding: value.encoding ?? 'hex',
    },
    timestamp: timestamp ? fillTime(timestamp) : null,
    id: fields.id ?? ({ from: 'sha256', name: 'body' } as const),
    /** Empty if nothing is signed, because the secret itself is sent. */
    signed: fields.signed ?? [],
    signed_headers: signed_headers
      ? { from: signed_headers.from ?? NO_HEADER, required: signed_headers.required ?? [] }
      : null,
    challenge: fields.challenge ?? null,
  };
}

function fillTime(given: NonNullable<SignatureFields['timestamp']>) {
  const { from = NO_HEADER, unit = 's', past = TOLERANCE_MS, future = TOLERANCE_MS } = given;
  return { from, unit, past, future };
}

/** A kind of event, such as `content.*`: a star matches any text. */
const kindPattern = z.string().min(1);
const kindPatterns = oneOrMore(kindPattern, z.array(kindPattern).min(1).max(100));

const resourceName = z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected the name of a resource of this profile');

/** How events of some kinds are read; absent fields are those of `webhooks`. */
const ruleSchema = z.strictObject({
  kind: kindPatterns.default(['*']).meta({
    description: 'Pattern of the kind of event, or several; a star is any text.',
    examples: ['post.*', ['entry.publish', 'entry.update']],
  }),
  where: documented(eventConditionsSchema.prefault({}))(
    'Values that the event must have, by place: one text or several; a star is any text.',
    [{ 'json:collection': 'articles' }, { 'json:model': ['article', 'page'] }],
  ),
  resource: oneOrMore(resourceName, z.array(resourceName).max(20))
    .optional()
    .meta({
      description: 'Resource of the event, or several. An empty list ignores it.',
      examples: ['posts', ['posts', 'pages'], []],
    }),
  id: documented(eventFieldsSchema.nullable().optional())(
    'Place of the id, or several in order; a list means several records. Null: the resource is scanned.',
    ['json:entry.documentId', ['json:post.current.id', 'json:post.previous.id'], null],
  ),
  updated: documented(eventFieldsSchema.nullable().optional())('Place of the time of change, or several in order.', [
    'json:entry.updatedAt',
    null,
  ]),
  deleted: documented(z.boolean().optional())('Whether the record is deleted. By default by `webhooks.deleted`.', [
    true,
  ]),
  continue: documented(z.boolean().default(false))('Whether later rules read the same event too.', [true]),
});

/** How deliveries are verified and read. They are only hints: the record is fetched from the service. */
export const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Path of the body's list of events; null if one delivery is one event. */
  events: withExamples(bodyPath.nullable().default(null), ['events', '']),
  /** The kind of event; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type').meta({ examples: ['json:event', 'header:X-Event'] }),
  rules: documented(z.array(ruleSchema).max(200).default([]))(
    'Rules by kind of event, before `kinds`; the first that fits decides.',
    [
      [
        { kind: 'post.*', resource: 'posts', id: ['json:post.current.id', 'json:post.previous.id'] },
        { kind: '*.delete', where: { 'json:collection': 'articles' }, resource: 'articles', id: 'json:keys' },
      ],
    ],
  ),
  /** The resource, by the service's own name. */
  resource: withExamples(eventFieldSchema.nullable().prefault('json:data.resource'), ['json:model', null]),
  /** The service's name for a resource, if it is not the profile's. */
  resource_names: withExamples(z.record(z.string(), z.string()).default({}), [{ article: 'articles' }]),
  /** Resource by event kind, checked before `resource`; the first pattern that matches. */
  kinds: withExamples(z.record(kindPattern, z.string()).default({}), [{ 'post.*': 'posts' }]),
  id: documented(eventFieldsSchema.nullable().prefault('json:data.id'))(
    'Place of the id, or several in order; a list means several records. Null: the resource is scanned.',
    ['json:entry.documentId', ['json:key', 'json:keys']],
  ),
  updated: documented(eventFieldsSchema.nullable().prefault('json:data.updated_at'))(
    'Place of the time of change, or several in order: an older fetch is repeated.',
    ['json:entry.updatedAt', ['json:post.current.updated_at', 'json:page.current.updated_at']],
  ),
  /** Kinds of events that mean that a record is deleted. */
  deleted: withExamples(z.array(kindPattern).default(['*.deleted']), [['*.delete', '*.unpublish']]),
});

export type WebhookProfile = z.output<typeof webhooksSchema>;
export type WebhookRule = WebhookProfile['rules'][number];

/** Returns all fields of an event that the profile reads. */
export function eventFieldsOf({ kind, resource, id, updated, rules }: WebhookProfile): EventField[] {
  const fieldsOfRules = rules.flatMap((rule) => [rule.id, rule.updated, rule.where.map(({ field }) => field)]);
  const single = resource === null ? [kind] : [kind, resource];
  return [single, id, updated, ...fieldsOfRules].flatMap((fields) => fields ?? []);
}

/** Returns the paths of rules with unknown resources, within `webhooks`. */
export function rulesWithoutResource({ rules }: WebhookProfile, resources: object): (string | number)[][] {
  // The rules may have other faults, so `resource` may be a text or a list.
  return rules.flatMap(({ resource = [] }, at) =>
    [resource].flat().every((name) => Object.hasOwn(resources, name)) ? [] : [['rules', at, 'resource']],
  );
}
