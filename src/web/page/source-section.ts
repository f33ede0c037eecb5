import { formatColumnChange } from '../../model/schema-change.ts';
import { bytesText, countOf, countText, NONE } from '../../observe/figures.ts';
import type { Attention } from '../../serve/status/attention.ts';
import type { RefusedStatus, SchemaChangeStatus, SourceStatus } from '../../serve/status/snapshot.ts';
import { controlBar, heldControls } from './controls.ts';
import { icon } from './icon.ts';
import { ago, markup, type Markup, moment } from './markup.ts';
import { wide, type SectionView } from './page-frame.ts';
import { resourceTable, runTable } from './resources.ts';
import { trafficPlots } from './traffic.ts';

/** All of a source as the overview of a few shows it. */
export function sourceSection(source: SourceStatus, view: SectionView): Markup {
  const name = source.source;
  const history = runTable(source, view);
  return sectionOf(source, view, [
    sourceNotes(source, view),
    markup`<details id="${name}-history" open><summary><h3>Last runs</h3></summary>${history}</details>`,
  ]);
}

/** A source's facts, controls, resources and traffic, and what follows them. */
export function sectionOf(source: SourceStatus, view: SectionView, more: readonly (Markup | null)[]): Markup {
  const { problem } = source.warehouse;
  const { now, root, may } = view;
  const name = source.source;
  const attributes = markup` class="source${problem === null ? '' : ' stale'}" id="${name}" aria-labelledby="${name}-title"`;
  const link = root === '' ? markup`<a href="sources/${encodeURIComponent(name)}">${name}</a>` : name;
  const content = markup`<div class="title"><h2 id="${name}-title">${link}</h2>
${factLine(source, now)}${controlBar(source, null, may)}</div>
${
  problem &&
  markup`<p class="problem">${icon('down')}<span>The warehouse cannot be read: ${problem.message}
<code>${problem.code}</code>${problem.hint === null ? null : markup`<br><span class="hint">→ ${problem.hint}</span>`}</span></p>`
}
<h3 class="hidden">Resources</h3>${resourceTable(source, view)}
<h3 class="hidden">Traffic</h3>${trafficPlots(source, view)}
${more}`;
  return markup`<section${attributes}>${content}</section>`;
}

/** A source that is not there, with every line that has to be corrected. */
export function refusedSection({ source, problem }: RefusedStatus): Markup {
  const lines = problem.message.split('\n').map((line) => markup`<br><code>${line}</code>`);
  return markup`<section class="source stale" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2></div>
<p class="problem">${icon('down')}<span>Its settings cannot be used:${lines}${
    problem.hint === null ? null : markup`<br><span class="hint">→ ${problem.hint}</span>`
  }</span></p></section>`;
}

/** Findings of several resources that say the same, in the place of the first; `more` are those that the list leaves out. */
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

type Findings = readonly [Attention, ...Attention[]];

/** Those that say the same of different sources or resources. */
export function groupFindings(found: readonly Attention[]): Findings[] {
  const groups = Map.groupBy(found, ({ severity, what, next }) => JSON.stringify([severity, what, next]));
  return [...groups.values()].flatMap(([first, ...same]) => (first === undefined ? [] : [[first, ...same] as const]));
}

const MAX_NAMES = 3;

function namesOf(group: Findings, root: string, isNamed: boolean): Markup {
  const left = group.length - MAX_NAMES;
  const names = group.slice(0, MAX_NAMES).map((one, at) => markup`${at > 0 && ', '}${nameOf(one, root, isNamed)}`);
  return markup`${names}${left > 0 && ` and ${countText(left)} more:`}`;
}

function nameOf({ source, resource }: Attention, root: string, isNamed: boolean): Markup | null {
  if (source === '') return null;
  // A channel of the alerts, as `alerts.ops`: it has no page of its own.
  if (source.includes('.')) return markup`<b>${source}</b>`;
  const name = resource === null ? source : isNamed ? `${source} · ${resource}` : resource;
  const path = resource === null ? '' : `/${encodeURIComponent(resource)}`;
  return markup`<a href="${root}sources/${encodeURIComponent(source)}${path}">${name}</a>`;
}

function factLine({ base_url, api, warehouse }: SourceStatus, now: number): Markup {
  const { address, file_bytes, wal_bytes, read_at } = warehouse;
  const sizes = [
    ...(file_bytes === null ? [] : [bytesText(file_bytes)]),
    ...(wal_bytes === null || wal_bytes === 0 ? [] : [`WAL ${bytesText(wal_bytes)}`]),
  ];
  const read = read_at === null ? null : markup`<span>read ${moment(read_at, now)}</span>`;
  return markup`<p class="facts"><span>${base_url}</span>${api.lifetime && markup`<span>${api.version}, ${lifetimeShort(api.lifetime)}</span>`}<span>${address}</span>
${sizes.length === 0 ? null : markup`<span>${sizes.join(' + ')}</span>`}${warehouse.problem && read}</p>`;
}

function lifetimeShort({ days_left, deprecated, about }: NonNullable<SourceStatus['api']['lifetime']>): string {
  if (days_left !== null) return days_left < 0 ? 'past its end' : `${countOf(days_left, 'day')} left`;
  return deprecated === null ? `about its end: ${about ?? 'nothing more'}` : 'deprecated';
}

/** Things that a person may want to look into, a box each; empty boxes are left out. */
function sourceNotes(source: SourceStatus, view: SectionView): Markup | null {
  const { now } = view;
  const notes = [heldDeletes(source, view), rejects(source, now), schemaChanges(source, now)];
  const shown = notes.filter((note) => note !== null);
  return shown.length === 0 ? null : markup`<div class="notes">${shown}</div>`;
}

function box(id: string, title: Markup, content: Markup, isOpen: boolean): Markup {
  return markup`<details id="${id}"${isOpen ? markup` open` : null}><summary><h4>${title}</h4></summary>${content}</details>`;
}

/** What waits for a person's word, with the commands and the buttons for it. */
export function heldDeletes({ source, resources }: SourceStatus, { now, may }: SectionView): Markup | null {
  const held = resources.filter(({ suspects }) => suspects.held > 0);
  if (held.length === 0) return null;
  const rows = held.map(({ resource, rows, suspects: { held, held_since, held_why } }) => {
    const of = rows === null ? null : ` of ${countText(rows.live)} live rows`;
    const since = held_since === null ? null : markup`, since ${moment(held_since, now)}`;
    const name = `--source ${source} ${resource}`;
    return markup`<li><b>${resource}</b>: ${countText(held)}${of}${since}${held_why && markup`<br><span class="hint">${held_why}</span>`}
${heldControls(source, resource, may)}<pre><code>content-sync deletes list ${name}
content-sync deletes confirm ${name}   # they are gone
content-sync deletes discard ${name}   # they are not</code></pre></li>`;
  });
  const total = held.reduce((sum, { suspects }) => sum + suspects.held, 0);
  return box(`${source}-held`, markup`Held deletes: ${countText(total)}`, markup`<ul>${rows}</ul>`, true);
}

function rejects({ source, resources }: SourceStatus, now: number): Markup | null {
  const rows = resources.flatMap(({ resource, rejects }) => rejects.map((reject) => ({ resource, ...reject })));
  if (rows.length === 0) return null;
  const total = rows.reduce((sum, { count }) => sum + count, 0);
  const body = rows.map(
    ({ resource, reason, count, last_seen_at, example }) =>
      markup`<tr><td>${resource}</td><td><code>${reason}</code></td><td class="number">${countText(count)}</td><td>${
        last_seen_at === null ? NONE : ago(last_seen_at, now)
      }</td><td class="text">${example}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">Resource</th><th scope="col">Reason</th><th scope="col" class="number">Records</th><th scope="col">Last seen</th><th scope="col">For example</th></tr></thead>`;
  const label = `Records of ${source} set aside`;
  const table = wide(`${source}-rejects-table`, label, markup`${head}<tbody>${body}</tbody>`);
  return box(`${source}-rejects`, markup`Set aside: ${countOf(total, 'record')}`, table, true);
}

function schemaChanges({ source, schema_changes: changes }: SourceStatus, now: number): Markup | null {
  const [newest] = changes;
  if (newest === undefined) return null;
  const title = markup`Last schema changes, the newest ${ago(newest.changed_at, now)}`;
  return box(`${source}-schema`, title, schemaTable(source, changes, now), false);
}

export function schemaTable(source: string, changes: readonly SchemaChangeStatus[], now: number): Markup {
  const rows = changes.map(
    ({ changed_at, table, column, ...change }) =>
      markup`<tr><td>${moment(changed_at, now)}</td><td><code>${table}.${column}</code></td><td>${formatColumnChange(change)}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">When</th><th scope="col">Column</th><th scope="col">Change</th></tr></thead>`;
  return wide(`${source}-schema-table`, `Schema changes of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
}
