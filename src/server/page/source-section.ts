// Sections of the pages about one source: what needs attention, facts, traffic.
import {
  formatCount,
  formatNumber,
  formatBytes,
  formatDelay,
  formatPercent,
  formatRate,
  NONE,
} from '../../observe/format-values.ts';
import type { Attention, Headline } from '../status/attention.ts';
import type { RefusedStatus, SourceStatus, WebhookStatus } from '../status/snapshot.ts';
import { hintLine, icon, joinWithDots, markup, type Markup, problemNote, timeAs } from './markup.ts';
import type { SectionView } from './page-frame.ts';
import { resourceTable, latestRunsTable } from './resources.ts';

export function summary({ tone, text }: Headline): Markup {
  const content = markup`${icon(tone)}<h2 id="headline">${text}</h2>`;
  return markup`<section class="summary ${tone}" aria-labelledby="headline">${content}</section>`;
}

/** A source on the overview of a few sources, with its last runs. */
export function sourceSection(source: SourceStatus, view: SectionView): Markup {
  const runs = markup`<details id="${source.source}-history" open><summary><h3>Last runs</h3></summary>${latestRunsTable(source, view)}</details>`;
  return renderSection(source, view, runs);
}

/** A source with its facts, controls, resources and traffic; `more` follows them. */
export function renderSection(source: SourceStatus, view: SectionView, more: Markup | null): Markup {
  const { problem } = source.warehouse;
  const { now, root } = view;
  const name = source.source;
  const link = root === '' ? markup`<a href="sources/${encodeURIComponent(name)}">${name}</a>` : name;
  return markup`<section class="source${problem === null ? '' : ' stale'}" id="${name}" aria-labelledby="${name}-title"><div class="title"><h2 id="${name}-title">${link}</h2>
${factLine(source, now)}</div>
${problem && problemNote(`The warehouse cannot be read: ${problem.message}`, problem)}
<h3 class="hidden">Resources</h3>${resourceTable(source, view)}
<h3 class="hidden">Traffic</h3>${trafficTiles(source, view)}
${more}</section>`;
}

/** A source whose settings cannot be used, with every line that has to be corrected. */
export function refusedSection({ source, problem }: RefusedStatus): Markup {
  const lines = problem.message.split('\n').map((line) => markup`<br><code>${line}</code>`);
  return markup`<section class="source stale" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2></div>
<p class="problem">${icon('down')}<span>Its settings cannot be used:${lines}${hintLine(problem.hint)}</span></p></section>`;
}

/**
 * Lists the findings, equal ones of several resources in one item; `more` is the last item. `root` is the path to the
 * overview; `isNamed` says that each resource is shown with the name of its source.
 */
export function attentionList(
  found: readonly Attention[],
  root: string,
  isNamed: boolean,
  more: Markup | null,
): Markup {
  const items = groupFindings(found).map(
    ([one, ...same]) =>
      markup`<li class="${one.severity}">${icon(one.severity)}<div>${namesOf([one, ...same], root, isNamed)} ${one.what}${
        one.next === null ? null : markup`<span class="hint"> → ${one.next}</span>`
      }${one.command === null || same.length > 0 ? null : markup`<code class="command">${one.command}</code>`}</div></li>`,
  );
  return markup`<ul class="attention" aria-label="What needs attention">${items}${more}</ul>`;
}

type FindingGroup = readonly [Attention, ...Attention[]];

export function groupFindings(found: readonly Attention[]): FindingGroup[] {
  const groups = Map.groupBy(found, ({ severity, what, next }) => JSON.stringify([severity, what, next]));
  return [...groups.values()].flatMap(([first, ...same]) => (first === undefined ? [] : [[first, ...same] as const]));
}

const MAX_NAMES = 3;

function namesOf(group: FindingGroup, root: string, isNamed: boolean): Markup {
  const left = group.length - MAX_NAMES;
  const names = group.slice(0, MAX_NAMES).map((one, at) => markup`${at > 0 && ', '}${nameOf(one, root, isNamed)}`);
  return markup`${names}${left > 0 && ` and ${formatNumber(left)} more:`}`;
}

function nameOf({ source, resource }: Attention, root: string, isNamed: boolean): Markup {
  // A channel such as `alerts.ops` has no page.
  if (source.includes('.')) return markup`<b>${source}</b>`;
  const name = resource === null ? source : isNamed ? `${source} · ${resource}` : resource;
  return markup`<a href="${root}sources/${encodeURIComponent(source)}">${name}</a>`;
}

function factLine({ base_url, warehouse }: SourceStatus, now: number): Markup {
  const { address, file_bytes, wal_bytes, read_at } = warehouse;
  const sizes = [
    ...(file_bytes === null ? [] : [formatBytes(file_bytes)]),
    ...(wal_bytes === null || wal_bytes === 0 ? [] : [`WAL ${formatBytes(wal_bytes)}`]),
  ];
  const read = read_at === null ? null : markup`<span>read ${timeAs('moment', read_at, now)}</span>`;
  return markup`<p class="facts"><span>${base_url}</span><span>${address}</span>
${sizes.length === 0 ? null : markup`<span>${sizes.join(' + ')}</span>`}${warehouse.problem && read}</p>`;
}

/** The traffic of a source: the used part of the limit, and webhooks. */
function trafficTiles(source: SourceStatus, view: SectionView): Markup {
  const { webhooks } = source;
  const others = webhooks === null ? noWebhooks(source) : webhookTiles(source, webhooks, view);
  return markup`<div class="figures">${limitTile(source, view)}${others}</div>`;
}

/** A tile with one large number and notes below it. */
function tile(title: string, value: string, notes: readonly (Markup | string)[]): Markup {
  return markup`<figure><figcaption><h4>${title}</h4><strong>${value}</strong> <span class="sub">${joinWithDots(notes)}</span></figcaption></figure>`;
}

function limitTile({ limit }: SourceStatus, { now, period }: SectionView): Markup {
  const { allowed_per_second: allowed, used, limited, requests, paused_until } = limit;
  const isPaused = paused_until !== null && paused_until > now;
  const notes = [
    allowed === null ? 'the service states no limit' : `of ${formatRate(allowed).replace(/\.0$/, '')} requests/s`,
    formatCount(requests, 'request'),
    `${formatNumber(limited)} × 429`,
    ...(isPaused ? [markup`paused, resumes ${timeAs('in', paused_until, now)}`] : []),
  ];
  if (used === null) return tile(`Requests ${period}`, formatNumber(requests), notes);
  return tile(`Limit used ${period}`, formatPercent(used), notes);
}

function webhookTiles({ changes }: SourceStatus, webhooks: WebhookStatus, view: SectionView): Markup {
  const { now, period } = view;
  const { received, refused, last_received_at: last } = webhooks;
  const { delay_p50_ms: p50, delay_p95_ms: p95, waiting, dead } = webhooks;
  const receivedNotes = [
    last === null ? 'none since the start' : markup`last ${timeAs('ago', last, now)}`,
    `${formatNumber(refused)} refused`,
    `brought ${formatCount(changes.by_webhook, 'change')}, the schedule ${formatNumber(changes.by_schedule)}`,
  ];
  const delayNotes = [
    'p95',
    `half within ${knownDelay(p50)}`,
    `${formatNumber(waiting)} waiting`,
    `${formatNumber(dead)} dead`,
  ];
  return markup`${tile(`Webhooks ${period}`, formatNumber(received), receivedNotes)}
${tile(`Webhook to row ${period}`, knownDelay(p95), delayNotes)}`;
}

function knownDelay(ms: number | null): string {
  return ms === null ? NONE : formatDelay(ms);
}

function noWebhooks({ source }: SourceStatus): Markup {
  return markup`<div class="empty"><h4>No webhooks</h4><p>Changes arrive with the schedule only.
To have them within a second, put <code>webhook: { secrets: [...] }</code> under <code>sources.${source}</code> in the config, and have the service post to <code>/webhooks/${source}</code>.</p></div>`;
}
