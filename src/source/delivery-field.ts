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
  const forms = kinds.map((kind) => `${kind}:${kind === 'header' ? beforeHeader : ''}${FIELD_KINDS[kind].name}`);
  const written = kinds.map((kind) => FIELD_KINDS[kind].written).join(' or ');
  return z
    .string(`expected ${written}`)
    .max(200)
    .regex(new RegExp(`^(?:${forms.join('|')})$`), `expected ${written}`)
    .transform((text) => parseField(text, kinds));
}

/** A field of an event: in the JSON body or in a header. */
export const eventFieldSchema = deliveryFieldSchema(['json', 'header']);

function parseField<K extends DeliveryFieldKind>(text: string, kinds: readonly K[]): DeliveryField<K> {
  const from = kinds.find((kind) => text.startsWith(`${kind}:`));
  if (from === undefined) throw new Error('a delivery field that its own pattern does not match');
  const name = text.slice(from.length + 1);
  return { from, name: from === 'header' ? name.toLowerCase() : name };
}
