import type { SignatureScheme } from '../../source/signature-scheme.ts';
import type { Delivery, SignatureRefusal } from './delivery.ts';
import { textAt, type Parts } from './text-at.ts';

type SignedTime = NonNullable<SignatureScheme['timestamp']>;

const SECONDS = /^[1-9]\d{0,10}$/;
const MILLISECONDS = /^[1-9]\d{0,13}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Units of a signed time, with epoch milliseconds on our side. Nothing else is a time: no sign, no point, no blanks. */
const UNITS: Readonly<
  Record<SignedTime['unit'], { pattern: RegExp; read: (text: string) => number; write: (ms: number) => string }>
> = {
  s: { pattern: SECONDS, read: (text) => Number(text) * 1_000, write: (ms) => String(Math.floor(ms / 1_000)) },
  ms: { pattern: MILLISECONDS, read: Number, write: String },
  iso: { pattern: ISO, read: (text) => Date.parse(text), write: (ms) => new Date(ms).toISOString() },
};

/**
 * The text of the time that was signed, at the place in the delivery that the scheme names; '' if the scheme signs none,
 * null if the delivery has none.
 */
export function timestampIn(delivery: Delivery, { timestamp }: SignatureScheme, parts: Parts): string | null {
  return timestamp === null ? '' : textAt(timestamp.from, delivery, parts);
}

/** Epoch milliseconds of the time that was signed, or why it does not count. Both edges of the tolerance still do. */
export function checkTimestamp(
  text: string,
  { unit, past, future }: SignedTime,
  now: number,
): number | SignatureRefusal {
  const { pattern, read } = UNITS[unit];
  const at = pattern.test(text) ? read(text) : Number.NaN;
  if (Number.isNaN(at)) return 'bad_timestamp';
  if (at < now - past) return 'too_old';
  return at > now + future ? 'too_new' : at;
}

/** The time as the sender would write it. */
export function writeTimestamp(ms: number, unit: SignedTime['unit']): string {
  return UNITS[unit].write(ms);
}
