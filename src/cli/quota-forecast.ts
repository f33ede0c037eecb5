import { countText } from '../observe/figures.ts';
import type { PeriodFigures } from '../queue/budget/period-quotas.ts';

const DAY_SECONDS = 86_400;
/** A month is known by its length. */
const LEAST_MONTH_DAYS = 28;

/** In how many periods of a quota the requests of a run fit. */
export interface QuotaForecast {
  name: string;
  limit: number;
  /** Requests that may still be sent in this period. */
  left: number;
  period_seconds: number;
  periods: number | null;
}

/** `share` is the part of the quota that may be used; `requests` is null if their number is not known. */
export function quotaForecast(
  { name, limit, left, periodMs }: PeriodFigures,
  share: number,
  requests: number | null,
): QuotaForecast {
  const each = Math.max(1, Math.floor(limit * share));
  const periods = requests === null ? null : 1 + Math.max(0, Math.ceil((requests - left) / each));
  return { name, limit, left, period_seconds: periodMs / 1_000, periods };
}

/** `needs 3 days at 10,000 a day`. */
export function quotaLine({ name, limit, left, period_seconds: seconds, periods }: QuotaForecast): string {
  const days = seconds / DAY_SECONDS;
  const word = days >= LEAST_MONTH_DAYS ? 'month' : days === 1 ? 'day' : 'period';
  const needs =
    periods === null ? 'unknown' : periods === 1 ? `fits into this ${word}` : `needs ${countText(periods)} ${word}s`;
  return `  quota ${name}: ${needs} at ${countText(limit)} a ${word}; ${countText(left)} may be sent in this one`;
}
