import { countOf, countText, NONE, percentText, rateText } from '../../observe/figures.ts';
import type { SourceStatus } from '../../serve/status/snapshot.ts';
import { markup, type Markup, until } from './markup.ts';
import type { SectionView } from './page-frame.ts';

/** What is known of the service's limit, and how much of it was used. */
export function limitFacts({ limit, api, base_url }: SourceStatus, { now, period }: SectionView): Markup {
  const { allowed_per_second: allowed, share, requests, limited, used, paused_until } = limit;
  const isPaused = paused_until !== null && paused_until > now;
  const facts: readonly (readonly [string, Markup | string])[] = [
    ['Allowed', allowed === null ? 'the service states no limit' : `${rateText(allowed)} requests/s`],
    ['Share of it that may be used', percentText(share)],
    [`Used ${period}`, used === null ? NONE : percentText(used)],
    [`Requests ${period}`, countText(requests)],
    ['Refused for their number (429)', countOf(limited, 'request')],
    ['Pause', isPaused ? markup`goes on ${until(paused_until, now)}` : 'none'],
    ['Version of the API', api.version === '' ? NONE : api.version],
    ['Service', base_url],
  ];
  return markup`<dl class="facts-list">${facts.map(([name, value]) => markup`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
