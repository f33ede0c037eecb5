import type { TimeForm } from './dialect.ts';
import { Digits } from '../world/json-value.ts';

const iso = (at: number): string => new Date(at).toISOString();
const ZONE_MS = 120 * 60_000;

const FORMS: readonly Omit<TimeForm, 'profile'>[] = [
  { name: 'iso_ms', resolution: 1, write: iso, format: 'as_sent' },
  { name: 'iso_s', resolution: 1_000, write: (at) => `${iso(at).slice(0, 19)}Z`, format: 'as_sent' },
  { name: 'iso_s sent as iso', resolution: 1_000, write: (at) => `${iso(at).slice(0, 19)}+00:00`, format: 'iso' },
  {
    name: 'zone',
    resolution: 1,
    write: (at) => `${iso(at + ZONE_MS).slice(0, 23)}+02:00`,
    format: 'as_sent',
  },
  { name: 'naive', resolution: 1_000, write: (at) => iso(at).slice(0, 19).replace('T', ' '), format: 'as_sent' },
  { name: 'epoch_s', resolution: 1_000, write: (at) => new Digits(Math.floor(at / 1_000)), format: 'epoch_s' },
  { name: 'epoch_ms', resolution: 1, write: (at) => new Digits(at), format: 'epoch_ms' },
];

/** How a service writes moments. The first one is the usual one. */
export const TIME_FORMS: readonly TimeForm[] = FORMS.map((form) => Object.assign({ profile: () => ({}) }, form));

/** The moment that a request names, read as a lenient service reads it; NaN for what is none. */
export function momentIn(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return text.length > 11 ? Number(text) : Number(text) * 1_000;
  const day = text.replace(' ', 'T');
  return Date.parse(/(Z|[-+]\d\d:?\d\d)$/.test(day) ? day : `${day}Z`);
}
