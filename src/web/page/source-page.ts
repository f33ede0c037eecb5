import { attentionOf } from '../../serve/status/attention.ts';
import { headlineOf } from '../../serve/status/headline.ts';
import type { ResourceStatus, SourceStatus, StatusSnapshot } from '../../serve/status/snapshot.ts';
import type { RunPart, SourceDetails } from '../../serve/status/source-details.ts';
import { deliveryTable, rejectTable } from './bodies.ts';
import { controlBar } from './controls.ts';
import { growthPlot } from './growth-plot.ts';
import { icon } from './icon.ts';
import { ago, markup, type Markup } from './markup.ts';
import { framed, sectionView, type PageView, type SectionView } from './page-frame.ts';
import { filesContent } from './pictures.ts';
import { resourceTable, runStatus, runsTable } from './resources.ts';
import { verificationTable } from './verifications.ts';
import { attentionList, heldDeletes, refusedSection, schemaTable, sectionOf } from './source-section.ts';
import { summary } from './status-page.ts';

/** The page of one source as a whole HTML document. */
export function renderSourcePage(
  snapshot: StatusSnapshot,
  source: SourceStatus,
  details: SourceDetails,
  page: PageView,
): string {
  const name = source.source;
  const only = { ...snapshot, sources: [source], refused: [] };
  const view = sectionView(snapshot, '../', page.token !== null);
  const held = heldDeletes(source, view);
  const growth = source.resources.map((status) => grown(status, details, 400));
  const content = markup`${headOf(only, view, true)}
${sectionOf(source, view, [held && markup`<div class="notes">${held}</div>`])}
${growth.some((one) => one !== null) ? panel('growth', 'Rows over time', markup`<div class="plots">${growth}</div>`) : null}
${detailPanels(source, details, view)}`;
  const path = `sources/${encodeURIComponent(name)}`;
  return framed(frameOf(only, path, [name]), page, content);
}

/** The page of one resource as a whole HTML document. */
export function renderResourcePage(
  snapshot: StatusSnapshot,
  source: SourceStatus,
  status: ResourceStatus,
  details: SourceDetails,
  page: PageView,
): string {
  const { source: name } = source;
  const { resource } = status;
  const only = { ...snapshot, sources: [{ ...source, resources: [status] }], refused: [] };
  const view = sectionView(snapshot, '../../', page.token !== null);
  const held = heldDeletes({ ...source, resources: [status] }, view);
  const facts = markup`<div class="title"><h2 id="${name}-title">${resource}</h2>${controlBar(source, status, view.may)}</div>
${resourceTable(source, view, [status])}${held && markup`<div class="notes">${held}</div>`}`;
  const growth = grown(status, details, 1_200);
  const content = markup`${headOf(only, view, false)}
<section class="source" id="${name}" aria-labelledby="${name}-title">${facts}</section>
${growth && panel('growth', 'Rows over time', growth)}
${detailPanels({ ...source, resources: [status] }, details, view)}`;
  const path = `sources/${encodeURIComponent(name)}/${encodeURIComponent(resource)}`;
  return framed(frameOf(only, path, [name, resource]), page, content);
}

/** The page of one run: what `content-sync runs show` prints. */
export function renderRunPage(
  snapshot: StatusSnapshot,
  name: string,
  id: string,
  { problem, run }: Pick<SourceDetails, 'problem' | 'run'>,
  page: PageView,
): string {
  const content = problem === null ? run.map(runPanel) : panel('unread', 'Run', problemText(problem));
  const path = `sources/${encodeURIComponent(name)}/runs/${id}`;
  const title = `${name} / run ${id} · content-sync`;
  return framed({ title, tone: 'quiet', path, trail: [name, `run ${id}`], snapshot }, page, markup`${content}`);
}

function runPanel({ resource, command, mode, status, facts }: RunPart): Markup {
  const rows = facts.map(
    ({ title, lines: [first, ...more] }) =>
      markup`<tr><th scope="row">${title}</th><td>${first}${more.map((line) => markup`<br>${line}`)}</td></tr>`,
  );
  const table = markup`<p>${runStatus(status)} <span class="sub">${command}, ${mode}</span></p><table class="run-facts"><tbody>${rows}</tbody></table>`;
  return panel(`run-${resource}`, resource, table);
}

/** The page of a source whose settings cannot be used. */
export function renderRefusedPage(snapshot: StatusSnapshot, name: string, page: PageView): string {
  const only = { ...snapshot, sources: [], refused: snapshot.refused.filter(({ source }) => source === name) };
  const content = markup`${summary(headlineOf(only, attentionOf(only)))}${only.refused.map(refusedSection)}`;
  return framed(frameOf(only, `sources/${encodeURIComponent(name)}`, [name]), page, content);
}

function frameOf(only: StatusSnapshot, path: string, trail: readonly string[]) {
  const found = attentionOf(only);
  const count = found.length === 0 ? '' : `(${found.length}) `;
  const { tone } = headlineOf(only, found);
  return { title: `${count}${trail.join(' / ')} · content-sync`, tone, path, trail, snapshot: only };
}

/** What a page begins with: how it stands, and what needs attention. `only` holds what the page is about. */
function headOf(only: StatusSnapshot, { root }: SectionView, isWhole: boolean): Markup {
  const all = attentionOf(only);
  const found = isWhole ? all : all.filter(({ resource }) => resource !== null);
  return markup`${summary(headlineOf(only, found))}${found.length === 0 ? null : attentionList(found, root, false, null)}`;
}

function grown({ resource, rows }: ResourceStatus, { runs }: SourceDetails, width: number): Markup | null {
  const own = runs.filter((run) => run.resource === resource);
  const plot = growthPlot({ resource, runs: own, live: rows?.live ?? null, width });
  return plot && markup`<figure><figcaption><h4>${resource}</h4></figcaption>${plot}</figure>`;
}

function filesPanel(source: SourceStatus, { pictures }: SourceDetails, view: SectionView): Markup | null {
  const content = filesContent(source, pictures, view);
  return content && panel('files', 'Files', content);
}

function detailPanels(source: SourceStatus, details: SourceDetails, view: SectionView): (Markup | null)[] {
  const { source: name, webhooks } = source;
  const { now } = view;
  const { problem, runs, rejects, deliveries, schema_changes: changes, verifications } = details;
  if (problem !== null) return [panel('unread', 'Runs, rejects and deliveries', problemText(problem))];
  const isReceived = deliveries !== null && webhooks !== null;
  return [
    filesPanel(source, details, view),
    panel('runs', 'Runs', runsTable(name, runs, view)),
    rejects.length === 0
      ? panel('rejects', 'Set aside', markup`<p class="empty">No record is set aside.</p>`)
      : panel('rejects', 'Set aside', rejectTable(name, rejects, now)),
    isReceived ? panel('deliveries', 'Deliveries', deliveryTable(name, deliveries, webhooks, view)) : null,
    changes.length === 0
      ? null
      : panel(
          'schema',
          'Schema log',
          markup`<p class="sub">the newest ${newest(changes[0]?.changed_at, now)}</p>${schemaTable(name, changes, now)}`,
        ),
    verifications.length === 0
      ? null
      : panel('verifications', 'Verifications', verificationTable(name, verifications, now)),
  ];
}

function newest(at: number | undefined, now: number): Markup | null {
  return at === undefined ? null : ago(at, now);
}

function problemText({ message, hint, code }: NonNullable<SourceDetails['problem']>): Markup {
  return markup`<p class="problem">${icon('down')}<span>They cannot be read: ${message} <code>${code}</code>${hint && markup`<br><span class="hint">→ ${hint}</span>`}</span></p>`;
}

function panel(id: string, title: string, content: Markup): Markup {
  return markup`<section class="source" id="${id}" aria-labelledby="${id}-title"><div class="title"><h2 id="${id}-title">${title}</h2></div>${content}</section>`;
}
