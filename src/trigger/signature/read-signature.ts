import type { SignatureScheme } from '../../source/signature-scheme.ts';
import type { Delivery, SignatureRefusal } from './delivery.ts';
import { textAt, type Parts } from './text-at.ts';

/** One signature of a delivery, still as text. */
export interface SentItem {
  /** Which method made it: `v1`; null if the header holds nothing but the signature. */
  readonly label: string | null;
  /** Which secret made it; null if the sender does not say. */
  readonly keyId: string | null;
  readonly text: string;
}

interface SentSignature {
  items: readonly SentItem[];
  parts: Parts;
}

/** More signatures than any sender puts into a delivery; each one costs a comparison. */
const MOST_ITEMS = 20;

const NO_PARTS: Parts = new Map();

/** How an item of a list is written; every item must be, also those that are of no interest. */
const ITEMS = {
  kv: /^(?<label>[A-Za-z0-9_-]+)=(?<text>[^,]+)$/,
  list: /^(?<label>[A-Za-z0-9_-]+),(?<text>[^,]+)$/,
  slashes: /^(?<keyId>[^/]+)\/(?<label>[^/]+)\/(?<text>[^,]+)$/,
} as const;

/** Makes the function that cuts a signature header as the scheme says. */
export function signatureReader({ value }: SignatureScheme): (delivery: Delivery) => SentSignature | SignatureRefusal {
  const { from, parse, prefix } = value;
  const cut = parse === 'plain' ? cutPrefix(prefix) : cutItems(ITEMS[parse], value.separator);
  return (delivery) => {
    const text = textAt(from, delivery, NO_PARTS);
    return text === null ? 'no_signature' : cut(text);
  };
}

function cutPrefix(prefix: string): (text: string) => SentSignature | SignatureRefusal {
  return (text) => {
    if (!text.startsWith(prefix)) return 'bad_signature_header';
    return { items: [{ label: null, keyId: null, text: text.slice(prefix.length) }], parts: NO_PARTS };
  };
}

function cutItems(pattern: RegExp, separators: readonly string[]): (text: string) => SentSignature | SignatureRefusal {
  const between = new RegExp(separators.toSorted((a, b) => b.length - a.length).join('|'));
  return (text) => {
    const pieces = text.split(between, MOST_ITEMS + 1);
    if (pieces.length > MOST_ITEMS) return 'too_many_signatures';
    const items = pieces.map((piece) => pattern.exec(piece)?.groups).map(itemOf);
    const whole = items.filter((item) => item !== null);
    return whole.length < items.length ? 'bad_signature_header' : { items: whole, parts: partsOf(whole) };
  };
}

function itemOf(groups: Record<string, string> | undefined): SentItem | null {
  const { label, keyId, text } = groups ?? {};
  return label === undefined || text === undefined ? null : { label, keyId: keyId ?? null, text };
}

function partsOf(items: readonly SentItem[]): Parts {
  const parts = new Map<string, string>();
  const repeated = new Set<string>();
  for (const { label, text } of items) {
    if (label === null) continue;
    if (parts.has(label)) repeated.add(label);
    parts.set(label, text);
  }
  for (const label of repeated) parts.delete(label);
  return parts;
}
