import type { PagePosition } from './page.ts';

/** Only the query of a position counts; a base makes it a URL. */
const ANYWHERE = 'http://localhost';

/**
 * True where the next position is this one with a number counted on, by one or by the records of a page: a link by which
 * the service numbers its pages all the same. The first link may add the parameter that a first request goes without.
 */
export function isNumericStep(position: PagePosition, next: PagePosition, received: number): boolean {
  const before = paramsOf(position);
  const after = paramsOf(next);
  const changed = [...after].filter(([name, value]) => before.get(name) !== value);
  const counted = changed.filter(([, value]) => /^\d{1,9}$/.test(value));
  return (
    counted.length === changed.length &&
    counted.some(([name, value]) => isCountedOn(before.get(name), Number(value), received))
  );
}

function paramsOf(position: PagePosition): Map<string, string> {
  return URL.canParse(position, ANYWHERE) ? new Map(new URL(position, ANYWHERE).searchParams) : new Map();
}

/** A first request without the parameter is number 0 or 1. */
function isCountedOn(before: string | undefined, after: number, received: number): boolean {
  if (before === undefined) return after === 1 || after === 2 || after === received;
  return /^\d{1,9}$/.test(before) && (after - Number(before) === 1 || after - Number(before) === received);
}
