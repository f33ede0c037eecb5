/** Cron expressions of schedules: their schema, and when they occur next. */
import { Cron } from 'croner';
import { z } from 'zod';
import { isTimeZone } from '../../model/time-zone.ts';

const CRON_EXPECTED = 'expected five cron fields such as "*/10 * * * *" (minute, hour, day, month, weekday)';

/** A cron expression with minutes as its smallest unit. */
export const cronExpression = z.string(CRON_EXPECTED).refine(isCron, CRON_EXPECTED);

/** An IANA time zone. */
export const timezone = z.string().refine(isTimeZone, 'expected an IANA time zone such as UTC or Europe/Vienna');

/** The first occurrence after a time, both in epoch milliseconds; Infinity if it never occurs. */
export type Occurrences = (after: number) => number;

/**
 * The occurrences of a cron expression in a zone. A time that a clock change leaves out occurs at the end of the gap, a
 * time that comes twice occurs once, and a field with `*` runs in real time through both.
 */
export function occurrencesOf(expression: string, timezone: string): Occurrences {
  const cron = shared(expression, timezone);
  return (after) => cron.nextRun(new Date(after))?.getTime() ?? Infinity;
}

/** Lists and ranges are times like a single value: `30 2,14 * * *` must not lose its 2:30 to the clock change. */
function parse(expression: string, timezone: string): Cron {
  return new Cron(expression, { timezone, fixedTimeRule: 'no-wildcard' });
}

const parsed = new Map<string, Cron>();
const MAX_PARSED = 100;

/** Each takes some 80 kB, and hundreds of sources mostly have the same schedule. It has no state. */
function shared(expression: string, timezone: string): Cron {
  const key = `${timezone} ${expression}`;
  const cron = parsed.get(key) ?? parse(expression, timezone);
  if (parsed.size >= MAX_PARSED) parsed.clear();
  parsed.set(key, cron);
  return cron;
}

function isCron(text: string): boolean {
  if (text.trim().split(/\s+/).length !== 5) return false;
  try {
    // One that never comes (30 February) would be silently off.
    return parse(text, 'UTC').nextRun() !== null;
  } catch {
    return false;
  }
}
