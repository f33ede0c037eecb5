import { z } from 'zod';
import type { DeliveryField } from './delivery-field.ts';
import { schemeFaults } from './signature-faults.ts';
import { methodsOf, signatureFields, type SignatureFields, type SignatureMethod } from './signature-fields.ts';
import { SIGNATURE_PRESET_NAMES, SIGNATURE_PRESETS } from './signature-presets.ts';
import { hasToken, type TemplateSegment } from './signature-template.ts';

/** A preset's name, or a scheme as data: no code per sender. */
export const signatureSchema = z
  .union([z.enum(SIGNATURE_PRESET_NAMES), signatureFields])
  .transform((given, context): SignatureScheme => {
    const fields = withBase(typeof given === 'string' ? { base: given } : given);
    for (const { path, message } of schemeFaults(fields)) {
      context.issues.push({ code: 'custom', path: [...path], message, input: given });
    }
    return fillScheme(fields);
  });

/** True if the sender signs the address that it delivers to, so that the settings need `public_url`. */
export function needsPublicUrl(scheme: SignatureScheme): boolean {
  return hasToken(scheme.signed, 'url', 'host');
}

type Value = NonNullable<SignatureFields['value']>;
type Timestamp = NonNullable<SignatureFields['timestamp']>;

/** A scheme with everything filled in; times in milliseconds. Names of headers may hold `{family}`. */
export interface SignatureScheme {
  /** At least one. */
  readonly methods: readonly SignatureMethod[];
  /** Values of `{family}`; one empty text if there are no families. */
  readonly families: readonly string[];
  readonly value: {
    readonly from: DeliveryField<'header' | 'query' | 'json'>;
    readonly parse: NonNullable<Value['parse']>;
    /** Any of these separates two items. */
    readonly separator: readonly string[];
    readonly prefix: string;
    readonly encoding: NonNullable<Value['encoding']>;
  };
  readonly timestamp: {
    readonly from: DeliveryField<'header' | 'part'>;
    readonly unit: NonNullable<Timestamp['unit']>;
    readonly past: number;
    readonly future: number;
  } | null;
  readonly id: DeliveryField;
  /** Empty if nothing is signed, because the secret itself is sent. */
  readonly signed: readonly TemplateSegment[];
  readonly signed_headers: { readonly from: DeliveryField<'header'>; readonly required: readonly string[] } | null;
  readonly body_hash: DeliveryField<'query' | 'header'> | null;
  readonly url_form: NonNullable<SignatureFields['url_form']>;
  readonly challenge: NonNullable<SignatureFields['challenge']> | null;
}

/** Five minutes, as the libraries of Standard Webhooks have it. */
const TOLERANCE_MS = 300_000;

const NOWHERE = { from: 'header', name: '' } as const;

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

/** Makes a scheme of fields in which `schemeFaults` found nothing. */
function fillScheme(fields: SignatureFields): SignatureScheme {
  const { value = {}, timestamp, signed_headers } = fields;
  const { separator = ',' } = value;
  return {
    methods: methodsOf(fields),
    families: fields.families ?? [''],
    value: {
      from: value.from ?? NOWHERE,
      parse: value.parse ?? 'plain',
      separator: typeof separator === 'string' ? [separator] : separator,
      prefix: value.prefix ?? '',
      encoding: value.encoding ?? 'hex',
    },
    timestamp: timestamp ? fillTime(timestamp) : null,
    id: fields.id ?? { from: 'sha256', name: 'body' },
    signed: fields.signed ?? [],
    signed_headers: signed_headers === undefined ? null : fillHeaders(signed_headers),
    body_hash: fields.body_hash ?? null,
    url_form: fields.url_form ?? 'exact',
    challenge: fields.challenge ?? null,
  };
}

function fillTime({ from = NOWHERE, unit = 's', past = TOLERANCE_MS, future = TOLERANCE_MS }: Timestamp) {
  return { from, unit, past, future };
}

function fillHeaders({ from = NOWHERE, required = [] }: NonNullable<SignatureFields['signed_headers']>) {
  return { from, required: required.map((name) => name.toLowerCase()) };
}
