import type { JsonValue } from '../../model/json.ts';
import { countAt } from '../requests/body-account.ts';
import type { GuardFault } from '../guards/guard-fault.ts';

const RANGE = /^\s*(?:([a-z][\w-]*)[ =]\s*)?(\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)\s*$/i;

interface Declaring {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  json: JsonValue;
}

/** A page that carries fewer records than it says itself (its own count, or `Content-Range`) was cut on its way. */
export function shortfallOf(answer: Declaring, countPath: string | null, received: number): GuardFault | null {
  const declared = Math.max(countAt(answer.json, countPath) ?? 0, rangeCount(answer.headers['content-range']));
  if (declared <= received) return null;
  return {
    code: 'page_too_short',
    message: `The page says that it holds ${declared} records, and carries ${received}`,
    hint: 'It was asked for again and stayed so: report it to the service, or set page.count: null in the profile.',
  };
}

/** Records that `Content-Range: items 0-99/508` declares; 0 if it is absent, counts bytes or cannot be read. */
function rangeCount(header: string | string[] | undefined): number {
  const range = typeof header === 'string' ? RANGE.exec(header) : null;
  if (range === null || range[1]?.toLowerCase() === 'bytes') return 0;
  const all = range[4] === '*' ? Infinity : Number(range[4]);
  // The last page may name the range that was asked for, past the end of what there is.
  return Math.min(Number(range[3]), all - 1) - Number(range[2]) + 1;
}
