import { z } from 'zod';
import { challengeSchema } from './challenge.ts';
import { deliveryFieldSchema } from './delivery-field.ts';
import { duration } from './duration-and-size.ts';
import { SIGNATURE_PRESET_NAMES } from './signature-presets.ts';
import { parseTemplate, type TemplateSegment } from './signature-template.ts';

/** How a delivery is proved: a keyed or a plain digest, a public key, or a secret that is simply sent along. */
const TYPES = ['hmac', 'hash', 'ed25519', 'static', 'basic'] as const;
const ALGORITHMS = ['sha1', 'sha256', 'sha384', 'sha512'] as const;
/** How a secret is written; `whsec` and `whpk` are Standard Webhooks' prefixes with base64 behind them. */
const KEY_ENCODINGS = ['utf8', 'base64', 'hex', 'whsec', 'whpk'] as const;
/**
 * How the signature header is cut: it is the signature (`plain`), `name=value` items (`kv`), `version,signature` items
 * (`list`), or `key id/algorithm/signature` items (`slashes`).
 */
const PARSES = ['plain', 'kv', 'list', 'slashes'] as const;
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
export const signatureFields = z.strictObject({
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
  /** Location of the signature, or of the secret that is sent along. */
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
      description:
        'The question by which the sender tests a new address: a known one by its name, or how it is known and answered.',
      examples: ['meta', { method: 'GET', echo: 'query:challenge' }],
    }),
});

export type SignatureFields = z.output<typeof signatureFields>;

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
export function methodsOf(fields: SignatureFields): SignatureMethod[] {
  return [{ ...fields, type: fields.type ?? 'hmac' }, ...(fields.also ?? [])].map((given) => ({
    type: given.type,
    algorithm: given.algorithm ?? 'sha256',
    key_encoding: given.key_encoding ?? 'utf8',
    item: given.item ?? null,
  }));
}
