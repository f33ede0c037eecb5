import { describe, expect, it } from 'vitest';
import { type Occurrences, occurrencesOf } from '../../../src/config/cron.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { computeDue, resourceTimes, type StoredSuccess } from '../../../src/server/schedule/due.ts';

const at = (time: string): number => Date.parse(`2026-11-20T${time}Z`);
const JITTERED = { incremental: '*/10 * * * *', full: '17 3 * * *', timezone: 'UTC', jitter: 30_000, resources: {} };

interface Case {
  incremental?: string | null;
  full?: string | null;
  jitter?: number;
  /** Time of day of the last success, and of the last full walk. */
  success?: string;
  whole?: string;
  stored?: Partial<StoredSuccess> | null;
  now: string;
}

const text = (time: string | undefined): string | null => (time === undefined ? null : timestampText(at(time)));
const occurrences = (expression: string | null): Occurrences | null =>
  expression === null ? null : occurrencesOf(expression, 'UTC');

function storedOf({ success, whole, stored }: Case): StoredSuccess | null {
  if (stored === null) return null;
  const none = { due_at: null, unproved_at: null, unproved_full_at: null, walk_mode: null, walk_started_at: null };
  return { ...none, last_success_at: text(success), last_full_at: text(whole), ...stored };
}

function due(given: Case) {
  const { incremental = '*/10 * * * *', full = '17 3 * * *', jitter = 0, now } = given;
  const isOff = incremental === null && full === null;
  const times = { incremental: occurrences(incremental), full: occurrences(full), jitter, isOff };
  const stored = storedOf(given);
  return computeDue({ times, stored, now: at(now), watchedSince: at('00:00:00') });
}

const time = (moment: number | null): string | null =>
  moment === null ? null : new Date(moment).toISOString().slice(8, 19);

const FRESH = { success: '10:00:05', whole: '03:18:00' };

describe('what is due', () => {
  it.each<[string, Case, 'backfill' | 'sync' | null]>([
    ['a whole walk of what was never walked', { stored: null, now: '10:00:00' }, 'backfill'],
    ['a whole walk where none has come to its end', { success: '09:59:00', now: '10:00:00' }, 'backfill'],
    ['an unfinished full walk', { ...FRESH, stored: { walk_mode: 'full' }, now: '10:01:00' }, 'backfill'],
    ['nothing between two occurrences', { ...FRESH, now: '10:09:59' }, null],
    ['an incremental walk at its occurrence', { ...FRESH, now: '10:10:00' }, 'sync'],
    ['the full walk where both are', { success: '03:10:05', whole: '02:00:00', now: '03:20:00' }, 'backfill'],
    ['the walk of an occurrence whose jitter the last success was in', { ...FRESH, jitter: 20_000, now: '10:00:20' }, 'sync'],
    ['nothing at all where both are null', { stored: null, full: null, incremental: null, now: '10:00:00' }, null],
    ['no half walk of changes alone before its occurrence', { ...FRESH, stored: { walk_mode: 'incremental' }, now: '10:05:00' }, null],
  ])('is %s', (_, given, command) => {
    expect(due(given).command).toBe(command);
  }); // prettier-ignore

  it.each<[string, Case, string | null]>([
    ['the next occurrence', { ...FRESH, now: '10:05:00' }, '20T10:10:00'],
    ['the full one where that comes first', { ...FRESH, success: '03:10:00', whole: '01:00:00', now: '03:16:00' }, '20T03:17:00'],
    ['in the past where it was missed', { ...FRESH, now: '12:00:00' }, '20T10:10:00'],
  ])('has as its next moment %s', (_, given, expected) => {
    expect(time(due(given).nextAt)).toBe(expected);
  }); // prettier-ignore

  it.each<[string, Case, string | null]>([
    ['two occurrences and five minutes after the last success', { ...FRESH, now: '10:05:00' }, '20T10:25:00'],
    ['a day after a first walk began', { stored: { walk_mode: 'full', walk_started_at: timestampText(at('09:00:00')) }, now: '10:00:00' }, '21T09:00:00'],
    ['a day after somebody looked, where none began', { stored: null, now: '10:00:00' }, '21T00:00:00'],
    ['never where nothing is scheduled', { ...FRESH, incremental: null, full: null, now: '10:05:00' }, null],
  ])('is overdue %s', (_, given, expected) => {
    expect(time(due(given).overdueAt)).toBe(expected);
  }); // prettier-ignore
});

describe('the times of a resource', () => {
  const blog = { source: 'blog', resource: 'content', hasFilter: true };

  it('have a jitter of their own, always the same, below the one that is set', () => {
    const names = Array.from({ length: 50 }, (_, index) => `resource_${index}`);
    const jitters = names.map((resource) => resourceTimes({ ...blog, resource }, JITTERED).jitter);
    expect(jitters).toEqual(names.map((resource) => resourceTimes({ ...blog, resource }, JITTERED).jitter));
    expect(new Set(jitters).size).toBeGreaterThan(40);
    for (const jitter of jitters) expect(jitter).toSatisfy((ms: number) => ms >= 0 && ms < 30_000);
    expect(resourceTimes({ ...blog, source: 'shop' }, JITTERED).jitter).not.toBe(resourceTimes(blog, JITTERED).jitter);
  });

  it('are those of the resource where it has any, and null turns one off', () => {
    const resources = { content: { full: null }, images: { incremental: null, full: '0 5 * * *' } };
    const content = resourceTimes(blog, { ...JITTERED, resources });
    const images = resourceTimes({ ...blog, resource: 'images' }, { ...JITTERED, resources });
    expect([content.full, images.incremental]).toEqual([null, null]);
    expect(time(content.incremental?.(at('10:00:00')) ?? null)).toBe('20T10:10:00');
    expect(time(images.full?.(at('10:00:00')) ?? null)).toBe('21T05:00:00');
  });

  it('are only the full ones where the service cannot be asked for changes', () => {
    const times = resourceTimes({ ...blog, hasFilter: false }, JITTERED);
    expect([times.incremental, times.isOff]).toEqual([null, false]);
    expect(time(times.full?.(at('10:00:00')) ?? null)).toBe('21T03:17:00');
  });

  it('are meant in the zone that is set', () => {
    const times = resourceTimes(blog, { ...JITTERED, timezone: 'Europe/Vienna' });
    expect(time(times.full?.(at('10:00:00')) ?? null)).toBe('21T02:17:00');
  });
});
