import { json, RefusedRequest } from '../answer.ts';
import type { Handler } from '../route-context.ts';
import { reportRows, type ReportRow } from './report-rows.ts';

const DAY = /^\d{4}-\d\d-\d\d$/;
const DAY_MS = 86_400_000;
/** Days of one request. */
const MOST_DAYS = 366;

/**
 * GET /v1/reports/{name}?from=&to=: figures by day, both days with them, page by page. The totals are those of all rows,
 * also where the listing holds no more of them than a query may have.
 */
export const readReport: Handler = ({ settings, clock }, { url, params }) => {
  const { report: names, restate, windowCap, reportZone: zone, reportStart: start, seed } = settings;
  const rules = { seed, zone, start, restate, posts: settings.reportPosts };
  const name = params['report'] ?? '';
  if (!names.includes(name)) throw new RefusedRequest(404, `There is no report "${name}".`);
  const range = { from: dayIn(url, 'from'), to: dayIn(url, 'to') };
  if (range.from > range.to) throw new RefusedRequest(400, '"from" lies behind "to".');
  if (Date.parse(range.to) - Date.parse(range.from) >= MOST_DAYS * DAY_MS)
    throw new RefusedRequest(400, `A report is of ${MOST_DAYS} days at most.`);
  const all = reportRows(name, range, rules, clock.now());
  const listed = windowCap === null ? all : all.slice(0, windowCap);
  const [at, size] = [place(url), Math.min(count(url, 'limit') ?? settings.limit, settings.maxLimit)];
  const data = listed.slice(at, at + size);
  const next = at + size < listed.length ? String(at + size) : null;
  const totals = { views: sum(all, 'views'), visitors: sum(all, 'visitors') };
  return json(200, { data, next_cursor: next, total: listed.length, totals, zone });
};

function dayIn(url: URL, parameter: string): string {
  const text = url.searchParams.get(parameter) ?? '';
  if (DAY.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new RefusedRequest(400, `"${parameter}" must be a day such as 2026-01-31.`);
}

function place(url: URL): number {
  return count(url, 'cursor') ?? 0;
}

function count(url: URL, parameter: string): number | null {
  const text = url.searchParams.get(parameter);
  if (text === null) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new RefusedRequest(400, `"${parameter}" must be a whole number.`);
}

function sum(rows: readonly ReportRow[], field: 'views' | 'visitors'): number {
  return rows.reduce((total, row) => total + row[field], 0);
}
