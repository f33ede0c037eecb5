/** A part of a pattern: a field of a time, by its letters, or a text that stands for itself. */
export type PatternPart = { field: string } | { text: string };

interface Field {
  /** Milliseconds of the smallest step that it shows; null for an offset. */
  step: number | null;
  write: (local: Date, offsetMinutes: number) => string;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The fields of Unicode TR35 (as in date-fns and Luxon) that say a moment by numbers alone. */
const FIELDS: Readonly<Record<string, Field>> = {
  yyyy: { step: Infinity, write: (local) => padded(local.getUTCFullYear(), 4) },
  MM: { step: Infinity, write: (local) => padded(local.getUTCMonth() + 1, 2) },
  M: { step: Infinity, write: (local) => String(local.getUTCMonth() + 1) },
  dd: { step: DAY, write: (local) => padded(local.getUTCDate(), 2) },
  d: { step: DAY, write: (local) => String(local.getUTCDate()) },
  HH: { step: HOUR, write: (local) => padded(local.getUTCHours(), 2) },
  H: { step: HOUR, write: (local) => String(local.getUTCHours()) },
  mm: { step: MINUTE, write: (local) => padded(local.getUTCMinutes(), 2) },
  ss: { step: SECOND, write: (local) => padded(local.getUTCSeconds(), 2) },
  S: { step: 100, write: (local) => fraction(local, 1) },
  SS: { step: 10, write: (local) => fraction(local, 2) },
  SSS: { step: 1, write: (local) => fraction(local, 3) },
  SSSSSS: { step: 1, write: (local) => fraction(local, 6) },
  XXX: { step: null, write: (_, minutes) => (minutes === 0 ? 'Z' : offsetText(minutes, ':')) },
  xxx: { step: null, write: (_, minutes) => offsetText(minutes, ':') },
  XX: { step: null, write: (_, minutes) => (minutes === 0 ? 'Z' : offsetText(minutes, '')) },
  xx: { step: null, write: (_, minutes) => offsetText(minutes, '') },
};

/** A field and all that is coarser; a pattern that leaves one of these out does not say when. */
const COARSER = ['y', 'M', 'd', 'H', 'm', 's', 'S'] as const;

const PART = /'((?:[^']|'')+)'|''|([A-Za-z])\2*|[^A-Za-z']+/g;

/**
 * The parts of a date pattern of Unicode TR35, such as `yyyy-MM-dd'T'HH:mm:ss`; text stands in single quotes. Null for
 * anything else, and for one that leaves out a field but shows a finer one.
 */
export function parsePattern(pattern: string): PatternPart[] | null {
  const found = [...pattern.matchAll(PART)];
  if (found.map(([whole]) => whole).join('') !== pattern) return null;
  const parts = found.map(([whole, quoted, letter]): PatternPart => {
    if (letter !== undefined) return { field: whole };
    return { text: whole === "''" ? "'" : (quoted?.replaceAll("''", "'") ?? whole) };
  });
  return isMoment(parts) ? parts : null;
}

function isMoment(parts: readonly PatternPart[]): boolean {
  const fields = fieldsOf(parts);
  const letters = new Set(fields.map((field) => field.charAt(0)));
  const shown = COARSER.map((letter) => letters.has(letter));
  const isWhole = shown.lastIndexOf(true) >= 2 && !shown.slice(0, shown.lastIndexOf(true)).includes(false);
  return isWhole && fields.every((field) => Object.hasOwn(FIELDS, field));
}

function fieldsOf(parts: readonly PatternPart[]): string[] {
  return parts.flatMap((part) => ('field' in part ? [part.field] : []));
}

/** Milliseconds of the smallest step that the pattern shows. */
export function patternStep(parts: readonly PatternPart[]): number {
  return Math.min(...fieldsOf(parts).map((field) => FIELDS[field]?.step ?? Infinity));
}

/** True if the pattern says the offset from UTC, so that a time is the same moment everywhere. */
export function hasOffset(parts: readonly PatternPart[]): boolean {
  return fieldsOf(parts).some((field) => FIELDS[field]?.step === null);
}

/**
 * A local time (epoch milliseconds as if it were UTC) as the pattern writes it; what is finer than that is cut off.
 * `offsetMinutes` is by how much the place is ahead of UTC.
 */
export function writePattern(parts: readonly PatternPart[], local: number, offsetMinutes = 0): string {
  const date = new Date(local);
  return parts
    .map((part) => ('text' in part ? part.text : (FIELDS[part.field]?.write(date, offsetMinutes) ?? '')))
    .join('');
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

function fraction(local: Date, digits: number): string {
  return padded(local.getUTCMilliseconds(), 3).padEnd(digits, '0').slice(0, digits);
}

function offsetText(minutes: number, colon: string): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${padded(Math.floor(size / 60), 2)}${colon}${padded(size % 60, 2)}`;
}
