import type { Behaviour } from './behaviour.ts';
import { Digits } from './json-value.ts';
import { timeValue, type Entry } from './records.ts';

/** The records that a service's filter finds for what the parameter says; all where it says nothing. */
export function filtered(behaviour: Behaviour, entries: readonly Entry[], asked: string | null): readonly Entry[] {
  const { filter, times } = behaviour;
  if (asked === null || filter.kind === 'none' || filter.kind === 'ignored') return entries;
  if (filter.kind === 'nothing') return [];
  const since = momentIn(asked);
  return entries.filter((entry) => {
    const at = entry.updatedAt ?? (filter.findsNull ? entry.createdAt : null);
    if (at === null) return false;
    if (filter.kind === 'text') {
      const own = timeValue(at, times.form);
      return own instanceof Digits ? Number(own.text) >= Number(asked) : typeof own === 'string' && own >= asked;
    }
    if (filter.kind === 'gt') return at > since;
    if (filter.kind === 'seconds') return Math.floor(at / 1_000) >= Math.floor(since / 1_000);
    return at >= since;
  });
}

/** Whatever the service accepts as a moment; what it cannot read finds nothing. */
function momentIn(text: string): number {
  if (/^\d+$/.test(text)) return text.length > 11 ? Number(text) : Number(text) * 1_000;
  const iso = text.replace(' ', 'T');
  const parsed = Date.parse(/(Z|[-+]\d\d:\d\d)$/.test(iso) ? iso : `${iso}Z`);
  return Number.isNaN(parsed) ? Infinity : parsed;
}
