// Collects what a service announces about the end of its API (`Deprecation` and `Sunset` headers).
import type { HeardNotice, NoticeKind, ServiceNotice } from '../model/service-notice.ts';
import { httpDate } from '../model/timestamp-text.ts';
import { parseLinkHeader } from './requests/listing-signals.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Relations of links to documents about the end of an API. */
const RELATIONS: Readonly<Record<string, NoticeKind>> = {
  deprecation: 'about',
  sunset: 'about',
  'successor-version': 'successor',
};
const MENTIONS_RELATION = /deprecation|sunset|successor-version/i;
const MAX_LINK_LENGTH = 500;

/**
 * The notices in the headers of a response about the end of the API; usually none. `url` was requested, `now` is in epoch
 * milliseconds.
 */
export function noticesIn(headers: Headers, url: URL, now: number): ServiceNotice[] {
  const { deprecation, sunset, link } = headers;
  const isLinked = link !== undefined && MENTIONS_RELATION.test(String(link));
  if (deprecation === undefined && sunset === undefined && !isLinked) return [];
  const found = [
    ...(deprecation === undefined ? [] : deprecationIn(String(deprecation), now)),
    ...(sunset === undefined ? [] : dated('sunset', httpDate(String(sunset).trim(), now))),
    ...(isLinked ? linksIn(link, url) : []),
  ];
  return found.map(([kind, value]) => ({ kind, value, path: url.pathname }));
}

type NoticeValue = readonly [NoticeKind, string];

/** RFC 9745 has `@epoch`; the drafts before it had `true` and an HTTP-date. */
function deprecationIn(text: string, now: number): NoticeValue[] {
  const [, epoch] = /^@(-?\d{1,12})(?:\s*;.*)?$/.exec(text.trim()) ?? [];
  if (epoch !== undefined) return dated('deprecation', Number(epoch) * 1_000);
  if (/^(?:true|\?1)$/i.test(text.trim())) return [['deprecation', 'yes']];
  return dated('deprecation', httpDate(text.trim(), now));
}

function linksIn(link: string | string[], url: URL): NoticeValue[] {
  return (parseLinkHeader(link) ?? []).flatMap(({ uri, rels }) => {
    const target = URL.parse(uri, url.href);
    if (target === null || !/^https?:$/.test(target.protocol) || target.href.length > MAX_LINK_LENGTH) return [];
    const kinds = new Set(rels.flatMap((rel) => (Object.hasOwn(RELATIONS, rel) ? (RELATIONS[rel] ?? []) : [])));
    return [...kinds].map((kind) => [kind, target.href] as const);
  });
}

/** A year has four digits. */
const MAX_TIME_MS = Date.parse('9999-12-31T23:59:59Z');

function dated(kind: NoticeKind, at: number | null): NoticeValue[] {
  if (at === null || Math.abs(at) > MAX_TIME_MS) return [];
  return [[kind, new Date(at).toISOString().replace('.000Z', 'Z')]];
}

/** The notices that this process has received from one service. */
export interface ApiNotices {
  read(headers: Headers, url: URL): void;
  /** Returns all notices since a time in epoch milliseconds. */
  since(moment: number): HeardNotice[];
}

/** A service may send another date with every response. */
const MAX_NOTICES = 50;

/** `scrub` takes secrets out of a text: a service may repeat the credential in its links. */
export function createApiNotices(clock: { now(): number }, scrub: (text: string) => string): ApiNotices {
  const heard = new Map<string, HeardNotice>();
  return {
    read: (headers, url) => {
      const now = clock.now();
      for (const { kind, ...found } of noticesIn(headers, url, now)) {
        const notice = { kind, value: scrub(found.value), path: scrub(found.path) };
        const key = `${notice.kind} ${notice.value}`;
        const { path, firstHeard } = heard.get(key) ?? { ...notice, firstHeard: now };
        heard.delete(key);
        heard.set(key, { ...notice, path, firstHeard, lastHeard: now });
        const [oldest] = heard.keys();
        if (heard.size > MAX_NOTICES && oldest !== undefined) heard.delete(oldest);
      }
    },
    since: (moment) => [...heard.values()].filter(({ lastHeard }) => lastHeard >= moment),
  };
}
