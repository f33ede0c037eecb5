import type { Random } from '../random.ts';
import { jsonAnswer, withHeader, type Answer, type Asked } from './answer.ts';

export const PAGE_STYLES = ['cursor', 'page', 'offset', 'link', 'next-url'] as const;
export type PageStyleName = (typeof PAGE_STYLES)[number];

/** Of a record: what JSON can say exactly, so that the same text means the same record. */
export type HonestRecord = { id: string; updated_at: string } & Record<string, unknown>;

const HOUR = 3_600_000;
const FIRST = Date.parse('2025-05-01T06:00:00Z');
const SIZE = 5;

/** Records as people write them, all of them changed long ago. */
export function drawRecords(random: Random): HonestRecord[] {
  return Array.from({ length: random.whole(6, 18) }, (_, at) => ({
    id: `r${at + 1}`,
    title: `Record ${at + 1} ${random.pick(['', 'é', '😀', '"', '\\'])}`,
    count: random.whole(-5, 5_000),
    part: random.whole(0, 400) / 8,
    isShown: random.chance(0.5),
    tags: Array.from({ length: random.whole(0, 3) }, (_none, tag) => `tag ${tag}`),
    author: random.chance(0.8) ? { name: `Author ${random.whole(1, 3)}`, born: null } : null,
    updated_at: new Date(FIRST + at * HOUR).toISOString(),
  }));
}

/** The profile that a person would write of this service. */
export function honestPage(style: PageStyleName): Record<string, unknown> {
  // The total proves the end where pages are counted.
  return { style, size: SIZE, total: 'total' };
}

/** What is right, told by a service that keeps all of its promises. */
export function honestAnswer(
  asked: Asked,
  { records, style, now }: { records: readonly HonestRecord[]; style: PageStyleName; now: number },
): Answer {
  const { url } = asked;
  if (url.pathname === '/v1/content') return listing(url, records, style, now);
  const id = /^\/v1\/content\/([^/]+)$/.exec(url.pathname)?.[1];
  const found = records.find((record) => record.id === decodedId(id));
  if (found !== undefined) return jsonAnswer('200 OK', found, now);
  return jsonAnswer('404 Not Found', { message: 'there is nothing here' }, now);
}

function decodedId(id: string | undefined): string {
  try {
    return decodeURIComponent(id ?? '');
  } catch {
    return '';
  }
}

function listing(url: URL, all: readonly HonestRecord[], style: PageStyleName, now: number): Answer {
  const since = url.searchParams.get('updated_since');
  const from = startOf(url.searchParams, style);
  if (from === null || (since !== null && Number.isNaN(Date.parse(since)))) {
    return jsonAnswer('400 Bad Request', { message: 'a parameter that this service never gave' }, now);
  }
  const listed = all.filter((record) => since === null || Date.parse(record.updated_at) >= Date.parse(since));
  const size = Math.max(1, Math.min(100, Number(url.searchParams.get('limit') ?? SIZE) || SIZE));
  const next = from + size < listed.length ? from + size : null;
  const body = { data: listed.slice(from, from + size), total: listed.length };
  const nextUrl = next === null ? null : nextOf(url, next);
  if (style === 'cursor') return jsonAnswer('200 OK', { ...body, next_cursor: next === null ? null : `c${next}` }, now);
  if (style === 'next-url') return jsonAnswer('200 OK', { ...body, next: nextUrl }, now);
  const answer = jsonAnswer('200 OK', body, now);
  if (style !== 'link') return answer;
  const links = [`<${url.origin}/v1/content>; rel="first"`, ...(nextUrl === null ? [] : [`<${nextUrl}>; rel="next"`])];
  return withHeader(answer, 'Link', links.join(', '));
}

function nextOf(url: URL, next: number): string {
  const to = new URL(url);
  to.searchParams.set('from', String(next));
  return to.href;
}

/** Where a page begins; null where the parameter is none that this service ever gave. */
function startOf(params: URLSearchParams, style: PageStyleName): number | null {
  const size = Number(params.get('limit') ?? SIZE);
  const told = { cursor: 'cursor', page: 'page', offset: 'offset', link: 'from', 'next-url': 'from' }[style];
  const value = params.get(told);
  if (value === null) return 0;
  const digits = style === 'cursor' ? value.replace(/^c/, '') : value;
  if (!/^\d{1,6}$/.test(digits) || (style === 'cursor' && !value.startsWith('c'))) return null;
  return style === 'page' ? (Number(digits) - 1) * size : Number(digits);
}
