import { z } from 'zod';

/** The kinds of fields in a webhook delivery: the grammar of their names, and how they are written. */
const FIELD_KINDS = {
  /** A header of the request; case does not count. */
  header: { name: String.raw`[!#$%&'*+.^_\x60|~0-9A-Za-z-]+`, written: 'header:<name>' },
  /** A value in the JSON body: keys joined by dots, as in `data.id`. */
  json: { name: String.raw`[^.$\s][^.]*(?:\.[^.]+)*`, written: 'json:<key.key>' },
  /** A named part of the signature header, as `t` in `t=1,v1=2`. */
  part: { name: String.raw`[A-Za-z0-9_-]+`, written: 'part:<name>' },
  /** A parameter of the request's query. */
  query: { name: String.raw`[^=&#?\s]+`, written: 'query:<name>' },
  /** The digest of the body: the same body is the same delivery. */
  sha256: { name: 'body', written: 'sha256:body' },
} as const;

/** Kinds of fields in a delivery. */
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

/** A field of an event. */
export const eventFieldSchema = deliveryFieldSchema(EVENT_KINDS);

/** One field of an event, or several that are tried in this order; always a list in the end. */
export const eventFieldsSchema = z
  .union([eventFieldSchema, z.array(eventFieldSchema).min(1).max(10)])
  .transform((given): readonly EventField[] => (Array.isArray(given) ? given : [given]));

export type EventField = z.output<typeof eventFieldSchema>;

/** A condition on a delivery: the value of a field is one of these texts, in which a star stands for any text. */
export interface FieldCondition<K extends DeliveryFieldKind = DeliveryFieldKind> {
  readonly field: DeliveryField<K>;
  readonly patterns: readonly string[];
}

/** Conditions by field: `{ 'json:collection': articles }`. A number or a boolean is meant by its JSON text. */
export function conditionsSchema<K extends DeliveryFieldKind>(kinds: readonly K[]) {
  const word = z.union([z.string(), z.number(), z.boolean()]).transform(String);
  const patterns = z
    .union([word, z.array(word).min(1).max(100)])
    .transform((given) => (typeof given === 'string' ? [given] : given));
  return z
    .record(fieldText(kinds, ''), patterns)
    .transform((given): readonly FieldCondition<K>[] =>
      Object.entries(given).map(([text, texts]) => ({ field: parseField(text, kinds), patterns: texts })),
    );
}

/** Conditions on an event. */
export const eventConditionsSchema = conditionsSchema(EVENT_KINDS);

function fieldText(kinds: readonly DeliveryFieldKind[], beforeHeader: string) {
  const forms = kinds.map((kind) => `${kind}:${kind === 'header' ? beforeHeader : ''}${FIELD_KINDS[kind].name}`);
  const written = kinds.map((kind) => FIELD_KINDS[kind].written).join(' or ');
  return z
    .string(`expected ${written}`)
    .max(200)
    .regex(new RegExp(`^(?:${forms.join('|')})$`), `expected ${written}`);
}

function parseField<K extends DeliveryFieldKind>(text: string, kinds: readonly K[]): DeliveryField<K> {
  const from = kinds.find((kind) => text.startsWith(`${kind}:`));
  if (from === undefined) throw new Error('a delivery field that its own pattern does not match');
  const name = text.slice(from.length + 1);
  return { from, name: from === 'header' ? name.toLowerCase() : name };
}
