/** Cron expressions of schedules, such as `17 3 * * *`: their schema, and the times at which they occur. */
import { Cron } from 'croner';
import { z } from 'zod';
import { isTimeZone } from '../model/time-zone.ts';

const CRON_EXPECTED = 'expected five cron fields such as "*/10 * * * *" (minute, hour, day, month, weekday)';

/** A cron expression with minutes as its smallest unit. */
export const cronExpression = z.string(CRON_EXPECTED).refine(isCron, CRON_EXPECTED);

/** An IANA time zone. */
export const timezone = z.string().refine(isTimeZone, 'expected an IANA time zone such as UTC or Europe/Vienna');

/** The first occurrence after a time, both in epoch milliseconds; Infinity if it never occurs. */
export type Occurrences = (after: number) => number;

/**
 * Returns the function that finds the next occurrence of a cron expression in a time zone. When the clocks change, a skipped
 * time occurs at the end of the gap, a repeated time once, and a field with `*` follows the elapsed time.
 */
export function occurrencesOf(expression: string, timezone: string): Occurrences {
  const cron = cachedCron(expression, timezone);
  return (after) => cron.nextRun(new Date(after))?.getTime() ?? Infinity;
}

/** Lists and ranges are fixed times too: `30 2,14 * * *` must not skip 2:30 at a clock change. */
function parseCron(expression: string, timezone: string): Cron {
  return new Cron(expression, { timezone, fixedTimeRule: 'no-wildcard' });
}

const cachedCrons = new Map<string, Cron>();
const MAX_CACHED_CRONS = 100;

/** Shares parsed expressions, which take 80 kB each, because most sources have the same schedule. */
function cachedCron(expression: string, timezone: string): Cron {
  const key = `${timezone} ${expression}`;
  const cron = cachedCrons.get(key) ?? parseCron(expression, timezone);
  if (cachedCrons.size >= MAX_CACHED_CRONS) cachedCrons.clear();
  cachedCrons.set(key, cron);
  return cron;
}

function isCron(text: string): boolean {
  if (text.trim().split(/\s+/).length !== 5) return false;
  try {
    // Refuses a time that never occurs, such as 30 February.
    return parseCron(text, 'UTC').nextRun() !== null;
  } catch {
    return false;
  }
}
