import { countText, percentText, rateText, NONE, countOf, delayText, minuteText } from '../../observe/figures.ts';
import { replayButton } from './controls.ts';
import { ago, markup, type Markup, until } from './markup.ts';
import type { SectionView } from './page-frame.ts';
import { plotMarkup } from './plot.ts';
import type { LimitStatus, SourceStatus, WebhookStatus } from '../../serve/status/snapshot.ts';

/** The traffic of a source: how much of the limit was used, and what webhooks brought. */
export function trafficPlots(source: SourceStatus, view: SectionView): Markup {
  const { webhooks } = source;
  const plots =
    webhooks === null ? [noWebhooks(source)] : [webhookPlot(source, webhooks, view), delayPlot(source, webhooks, view)];
  return markup`<div class="plots">${limitPlot(source.source, source.limit, view)}${plots}</div>`;
}

function figure(title: string, value: string, notes: readonly (Markup | string)[], plot: Markup | null): Markup {
  return markup`<figure><figcaption><h4>${title}</h4><strong>${value}</strong> <span class="sub">${listed(notes)}</span></figcaption>${plot}</figure>`;
}

function listed(notes: readonly (Markup | string)[]): Markup[] {
  return notes.map((note, at) => (at === 0 ? markup`${note}` : markup` · ${note}`));
}

function limitPlot(source: string, limit: LimitStatus, { now, period }: SectionView): Markup {
  const { minutes, allowed_per_second: allowed, used, share, limited, requests, paused_until } = limit;
  const isKnown = minutes.some((minute) => minute.used !== null);
  const paused =
    paused_until !== null && paused_until > now ? [markup`paused, goes on ${until(paused_until, now)}`] : [];
  const notes = [
    allowed === null ? 'the service states no limit' : `of ${rateText(allowed).replace(/\.0$/, '')} requests/s`,
    countOf(requests, 'request'),
    `${countText(limited)} × 429`,
  ];
  const plot = plotMarkup({
    id: `${source}-limit`,
    title: isKnown ? 'Part of the limit used per minute' : 'Requests per minute',
    summary: `${period}: ${notes.join(', ')}`,
    minutes: minutes.map(({ at }) => at),
    bars: minutes.map((minute) => (isKnown ? minute.used : minute.requests)),
    marks: minutes.map((minute) => minute.limited > 0),
    level: isKnown && share < 1 ? { at: share, text: `share ${percentText(share)}` } : null,
    least: isKnown ? 1 : 10,
    axisText: isKnown ? percentText : perMinuteText,
    minuteText: (index) => limitText(minutes[index]),
  });
  const title = `${isKnown ? 'Limit used' : 'Requests'} ${period}`;
  return figure(title, isKnown && used !== null ? percentText(used) : countText(requests), [...notes, ...paused], plot);
}

function perMinuteText(value: number): string {
  return `${value < 1_000 ? countText(value) : `${value / 1_000}k`}/min`;
}

function limitText(minute: LimitStatus['minutes'][number] | undefined): string {
  if (minute === undefined) return '';
  const used = minute.used === null ? '' : ` (${percentText(minute.used)} of the limit)`;
  return `${minuteText(minute.at)}: ${countOf(minute.requests, 'request')}${used}, ${countText(minute.limited)} × 429`;
}

function webhookPlot({ source, changes }: SourceStatus, webhooks: WebhookStatus, { now, period }: SectionView): Markup {
  const { minutes, received, refused, last_received_at: last } = webhooks;
  const since = last === null ? 'none since the start' : markup`last ${ago(last, now)}`;
  const notes = [
    `${countText(refused)} refused`,
    `brought ${countOf(changes.by_webhook, 'change')}, the schedule ${countText(changes.by_schedule)}`,
  ];
  const plot = plotMarkup({
    id: `${source}-webhooks`,
    title: 'Webhooks received per minute',
    summary: `${period}: ${countText(received)} received, ${notes.join(', ')}`,
    minutes: minutes.map(({ at }) => at),
    bars: minutes.map((minute) => minute.received),
    marks: minutes.map((minute) => minute.refused > 0),
    least: 10,
    axisText: perMinuteText,
    minuteText: (index) => {
      const minute = minutes[index];
      return minute === undefined
        ? ''
        : `${minuteText(minute.at)}: ${countText(minute.received)} received, ${countText(minute.refused)} refused`;
    },
  });
  return figure(`Webhooks ${period}`, countText(received), [since, ...notes], plot);
}

function delayPlot({ source }: SourceStatus, webhooks: WebhookStatus, { may, period }: SectionView): Markup {
  const { minutes, delay_p50_ms: p50, delay_p95_ms: p95, waiting, dead } = webhooks;
  const notes = [`half within ${knownDelay(p50)}`, `${countText(waiting)} waiting`, `${countText(dead)} dead`];
  const plot = plotMarkup({
    id: `${source}-delay`,
    title: 'Delay from a webhook to its row',
    summary: `${period}: 95 % within ${knownDelay(p95)}, ${notes.join(', ')}`,
    minutes: minutes.map(({ at }) => at),
    lines: [
      { tone: 'other', values: minutes.map((minute) => minute.p95_ms) },
      { tone: 'main', values: minutes.map((minute) => minute.p50_ms) },
    ],
    least: 100,
    axisText: delayText,
    minuteText: (index) => {
      const minute = minutes[index];
      return minute === undefined
        ? ''
        : `${minuteText(minute.at)}: half within ${knownDelay(minute.p50_ms)}, 95 % within ${knownDelay(minute.p95_ms)}`;
    },
  });
  const legend = markup`<span class="legend"><i class="main"></i>p50 <i class="other"></i>p95</span>`;
  const replay = dead > 0 ? replayButton(source, null, may) : null;
  return markup`<figure><figcaption><h4>Webhook to row ${period} ${plot && legend}</h4>
<strong>${knownDelay(p95)}</strong> <span class="sub">p95 · ${notes.join(' · ')}</span>${replay}</figcaption>${plot}</figure>`;
}

function knownDelay(ms: number | null): string {
  return ms === null ? NONE : delayText(ms);
}

function noWebhooks({ source }: SourceStatus): Markup {
  return markup`<div class="empty"><h4>No webhooks</h4><p>Changes arrive with the schedule only.
To have them within a second, put <code>webhook: { secrets: [...] }</code> under <code>sources.${source}</code> in the config, and have the service post to <code>/webhooks/${source}</code>.</p></div>`;
}
