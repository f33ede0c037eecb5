/**
 * Fields of webhook deliveries in a profile. A field is written as its kind and its name: `header:X-Event`,
 * `json:data.id`, `query:token`. The profile names with them where a delivery has its signature, its id and its record.
 */
import { z } from 'zod';
import { documented, oneOrMore } from './basic-fields.ts';

/** Kinds of fields in a webhook delivery: the pattern of their names, and their notation in messages. */
const FIELD_KINDS = {
  /** A header of the request, in any case. */
  header: { name: String.raw`[!#$%&'*+.^_\x60|~0-9A-Za-z-]+`, notation: 'header:<name>' },
  /** A value in the JSON body: keys joined by dots, as in `data.id`. */
  json: { name: String.raw`[^.$\s][^.]*(?:\.[^.]+)*`, notation: 'json:<key.key>' },
  /** A named part of the signature header, as `t` in `t=1,v1=2`. */
  part: { name: String.raw`[A-Za-z0-9_-]+`, notation: 'part:<name>' },
  /** A parameter of the request's query. */
  query: { name: String.raw`[^=&#?\s]+`, notation: 'query:<name>' },
  /** The hash of the body, so that the same body is the same delivery. */
  sha256: { name: 'body', notation: 'sha256:body' },
} as const;

export type DeliveryFieldKind = keyof typeof FIELD_KINDS;

/** A parsed field; names of headers are in lower case. */
export interface DeliveryField<K extends DeliveryFieldKind = DeliveryFieldKind> {
  readonly from: K;
  readonly name: string;
}

/**
 * Schema of a field of one of these kinds, written as `<kind>:<name>`. `beforeHeader` is a regular expression for the
 * text before a header's name.
 */
export function deliveryFieldSchema<K extends DeliveryFieldKind>(kinds: readonly K[], beforeHeader: string = '') {
  return fieldText(kinds, beforeHeader).transform((text) => parseField(text, kinds));
}

/** The kinds of fields of an event: in the JSON body or in a header. */
const EVENT_KINDS = ['json', 'header'] as const;

export const eventFieldSchema = deliveryFieldSchema(EVENT_KINDS);

/** One field of an event, or several that are tried in order. */
export const eventFieldsSchema = oneOrMore(eventFieldSchema, z.array(eventFieldSchema).min(1).max(10));

export type EventField = z.output<typeof eventFieldSchema>;

/** A condition on a delivery: the value of a field matches one of these texts, in which `*` matches any text. */
export interface FieldCondition<K extends DeliveryFieldKind = DeliveryFieldKind> {
  readonly field: DeliveryField<K>;
  readonly patterns: readonly string[];
}

/** Conditions by field: `{ 'json:collection': articles }`. Numbers and booleans are compared as JSON text. */
function conditionsSchema<K extends DeliveryFieldKind>(kinds: readonly K[]) {
  const word = z.union([z.string(), z.number(), z.boolean()]).transform(String);
  const patterns = oneOrMore(word, z.array(word).min(1).max(100));
  return z
    .record(fieldText(kinds, ''), patterns)
    .transform((given): readonly FieldCondition<K>[] =>
      Object.entries(given).map(([text, texts]) => ({ field: parseField(text, kinds), patterns: texts })),
    );
}

export const eventConditionsSchema = conditionsSchema(EVENT_KINDS);

function fieldText(kinds: readonly DeliveryFieldKind[], beforeHeader: string) {
  const patterns = kinds.map((kind) => `${kind}:${kind === 'header' ? beforeHeader : ''}${FIELD_KINDS[kind].name}`);
  const notation = kinds.map((kind) => FIELD_KINDS[kind].notation).join(' or ');
  return z
    .string(`expected ${notation}`)
    .max(200)
    .regex(new RegExp(`^(?:${patterns.join('|')})$`), `expected ${notation}`);
}

function parseField<K extends DeliveryFieldKind>(text: string, kinds: readonly K[]): DeliveryField<K> {
  const from = kinds.find((kind) => text.startsWith(`${kind}:`));
  if (from === undefined) throw new Error('a delivery field that its own pattern does not match');
  const name = text.slice(from.length + 1);
  return { from, name: from === 'header' ? name.toLowerCase() : name };
}

const METHODS = ['GET', 'POST'] as const;
const KINDS = ['query', 'json', 'header'] as const;

const methods = oneOrMore(z.enum(METHODS), z.array(z.enum(METHODS)).min(1).max(2));

/** A request by which a sender tests a new webhook URL; the response returns a value from it. */
export const challengeSchema = z
  .strictObject({
    method: methods.meta({ description: 'Method of the challenge, or both.', examples: ['GET', ['GET', 'POST']] }),
    where: documented(conditionsSchema(KINDS).prefault({}))(
      'Values that identify the challenge, by their place in query, body or headers.',
      [{ 'query:hub.mode': 'subscribe' }, { 'json:type': 'url_verification' }],
    ),
    echo: deliveryFieldSchema(KINDS).meta({
      description: 'Place of the value to return.',
      examples: ['query:challenge', 'json:challenge'],
    }),
    field: documented(z.string().min(1).max(100).nullable().default(null))(
      'Field of the JSON object to return; null: plain text.',
      ['challenge', 'verification'],
    ),
    token: documented(deliveryFieldSchema(KINDS).nullable().default(null))(
      'Place of a token that must equal the secret `verify_token`.',
      ['query:hub.verify_token'],
    ),
    signed: documented(z.boolean().default(false))('Whether the challenge must be signed.', [true]),
  })
  .refine(
    ({ method, where, echo }) =>
      (method.length === 1 && method[0] === 'GET') || echo.from === 'query' || where.length > 0,
    {
      path: ['where'],
      error: 'expected values that tell the question from a delivery, because deliveries come by POST as well',
    },
  );

export type EchoChallenge = z.output<typeof challengeSchema>;
