import { ConfigError } from '../../model/errors.ts';
import { timeSpan } from '../../source/basic-fields.ts';

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?$/;

/**
 * Epoch milliseconds of what a person writes: a date or a time, in UTC where it names no zone, or a span before `now`
 * (`7d`, `12h`). Throws `ConfigError` for anything else.
 */
export function momentFrom(text: string, now: number): number {
  const span = timeSpan.safeParse(text);
  if (span.success) return now - span.data;
  const [isTime, zone] = MOMENT.exec(text) ?? [];
  const written = isTime === undefined || zone !== undefined ? text : `${text}Z`;
  const at = DATE.test(text) || isTime !== undefined ? Date.parse(written.replace(' ', 'T')) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw new ConfigError('usage', `"${text}" is no time`, {
    hint: 'write a date (2026-11-20), a time (2026-11-20T08:00:00Z) or a span before now (7d, 12h, 30m)',
  });
}
