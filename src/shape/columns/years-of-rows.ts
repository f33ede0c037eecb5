import type { Years } from '../../model/calendar-day.ts';
import type { Column, TableRows, TableShape } from '../../model/table.ts';

/** Times outside of these are slips of the pen, or stand for none. */
const FIRST_YEAR = 1970;
const MOST_YEARS_AHEAD = 10;

/**
 * The first and the last year of the times in the rows, as long as people may mean them in the year `now`; null if there
 * are none. Looks at every row of every page.
 */
export function yearsOfRows(rows: readonly TableRows[], now: number): Years | null {
  const [least, most] = timesWithin(now);
  let [first, last] = [most, least];
  for (const { table, width, cells } of rows) {
    for (const at of placesOfTimes(table)) {
      for (let cell = at; cell < cells.length; cell += width) {
        const time = cells[cell];
        if (typeof time !== 'string' || time < least || time >= most) continue;
        if (time < first) first = time;
        if (time > last) last = time;
      }
    }
  }
  return first === most ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** The first day of the times that people may mean in the year `now`, and the day after the last one. */
export function timesWithin(now: number): [from: string, before: string] {
  return [`${FIRST_YEAR}-01-01`, `${now + MOST_YEARS_AHEAD}-01-01`];
}

function placesOfTimes({ key, columns }: TableShape): number[] {
  return columns.flatMap((column, at) => (isTime(column) ? [key.length + at] : []));
}

export function isTime({ type }: Pick<Column, 'type'>): boolean {
  return type === 'date' || type === 'timestamp';
}
