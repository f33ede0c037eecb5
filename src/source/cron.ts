import { Cron } from 'croner';
import { z } from 'zod';

const CRON_EXPECTED = 'expected five cron fields such as "*/10 * * * *" (minute, hour, day, month, weekday)';

/** A cron expression with minutes as its smallest unit. */
export const cronExpression = z.string(CRON_EXPECTED).refine(isCron, CRON_EXPECTED);

/** An IANA time zone. */
export const timezone = z.string().refine(isTimezone, 'expected an IANA time zone such as UTC or Europe/Vienna');

function isCron(text: string): boolean {
  if (text.trim().split(/\s+/).length !== 5) return false;
  try {
    // One that never comes (30 February) would be silently off.
    return new Cron(text, { timezone: 'UTC' }).nextRun() !== null;
  } catch {
    return false;
  }
}

function isTimezone(text: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}
