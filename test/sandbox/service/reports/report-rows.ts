import { createHash } from 'node:crypto';

/** One row of a report: figures of a day by page and referrer; null stands for pages and referrers that are not known. */
export interface ReportRow {
  date: string;
  page: string | null;
  referrer: string | null;
  views: number;
  visitors: number;
}

const DAY_MS = 86_400_000;
/** How long after its end the figures of a day change. */
const RESTATED_MS = 3 * DAY_MS;
/** So often the figures of a day that is not final are others. */
const REVISION_MS = 21_600_000;
const PAGES = ['/', '/about', '/blog', '/blog/first-steps', '/blog/faster', '/contact', '/pricing', null] as const;
const REFERRERS = ['search', 'social', null] as const;
/** Parts of the rows that nobody ever sees, that come only when the day is restated, and that go then. */
const NEVER = 0.15;
const LATE = 0.1;
const WITHDRAWN = 0.05;
/** Part of the figures that is counted by the end of a day; the rest comes while it is restated. */
const BY_THE_END = 0.8;

/**
 * The rows of the days from `from` to `to`, both with them, as the service tells them at a moment (epoch milliseconds), none before `start`.
 * They are the same whenever they are asked for, but for days that are still restated.
 */
export function reportRows(name: string, range: { from: string; to: string }, start: string, now: number): ReportRow[] {
  const today = new Date(now).toISOString().slice(0, 10);
  const first = range.from < start ? start : range.from;
  const last = range.to > today ? today : range.to;
  const rows: ReportRow[] = [];
  for (let day = Date.parse(first); day <= Date.parse(last); day += DAY_MS) rows.push(...rowsOfDay(name, day, now));
  return rows;
}

function rowsOfDay(name: string, begin: number, now: number): ReportRow[] {
  const date = new Date(begin).toISOString().slice(0, 10);
  const end = begin + DAY_MS;
  const until = end + RESTATED_MS;
  const at = Math.min(now, until);
  const counted = Math.min(1, (at - begin) / (end - begin)) * BY_THE_END;
  const restated = Math.max(0, at - end) / RESTATED_MS;
  const revision = Math.floor(Math.max(0, at - begin) / REVISION_MS);
  const part = counted + (1 - BY_THE_END) * restated;
  return PAGES.flatMap((page) =>
    REFERRERS.flatMap((referrer) => {
      const key = `1 ${name} ${date} ${page} ${referrer}`;
      const [fate, size, unsteady] = [chance(key), chance(`${key} views`), chance(`${key} ${revision}`)];
      const isLate = fate >= NEVER && fate < NEVER + LATE;
      const isWithdrawn = fate > 1 - WITHDRAWN;
      if (fate < NEVER || (isLate && now < end) || (isWithdrawn && now >= end)) return [];
      const settled = now >= until ? 1 : 0.95 + 0.1 * unsteady;
      const views = Math.round((20 + 980 * size ** 3) * part * settled);
      return views === 0 ? [] : [{ date, page, referrer, views, visitors: Math.ceil(views * (0.4 + 0.4 * size)) }];
    }),
  );
}

/** 0 up to 1, the same for the same text. */
function chance(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32;
}
