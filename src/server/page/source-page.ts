// The page of one source, and of a source whose settings cannot be used.
import { formatColumnChange } from '../../model/table.ts';
import { formatNumber, formatBytes, NONE } from '../../observe/format-values.ts';
import { findProblems, buildHeadline } from '../status/attention.ts';
import type { FilesStatus, SourceStatus, StatusSnapshot, WebhookStatus } from '../status/snapshot.ts';
import type { DeliveryDetails, RejectDetails, SourceDetails } from '../status/source-details.ts';
import { countCell, dataTable, joinWithDots, markup, type Markup, problemNote, stateWord, timeAs } from './markup.ts';
import { panel, renderInFrame, sectionView, type SectionView } from './page-frame.ts';
import { runsTable } from './resources.ts';
import { attentionList, refusedSection, renderSection, summary } from './source-section.ts';

export function renderSourcePage(
  snapshot: StatusSnapshot,
  source: SourceStatus,
  details: SourceDetails,
  nonce: string,
): string {
  const only = { ...snapshot, sources: [source], refused: [] };
  const view = sectionView(snapshot, '../');
  const content = markup`${renderSection(source, view, null)}
${detailPanels(source, details, view)}`;
  return renderPage(only, source.source, nonce, content);
}

export function renderRefusedPage(snapshot: StatusSnapshot, name: string, nonce: string): string {
  const only = { ...snapshot, sources: [], refused: snapshot.refused.filter(({ source }) => source === name) };
  return renderPage(only, name, nonce, markup`${only.refused.map(refusedSection)}`);
}

/** The state of the source and what needs attention of it, and then the content. */
function renderPage(only: StatusSnapshot, source: string, nonce: string, content: Markup): string {
  const found = findProblems(only);
  const headline = buildHeadline(only, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}${source} · content-sync`;
  const frame = { title, tone: headline.tone, source, snapshot: only };
  const list = found.length === 0 ? null : attentionList(found, '../', false, null);
  return renderInFrame(
    frame,
    nonce,
    markup`${summary(headline)}${list}
${content}`,
  );
}

function detailPanels(source: SourceStatus, details: SourceDetails, view: SectionView): (Markup | null)[] {
  const { source: name, webhooks } = source;
  const { now } = view;
  const { problem, runs, rejects, deliveries, schema_changes: changes } = details;
  if (problem !== null) {
    const note = problemNote(`They cannot be read: ${problem.message}`, problem);
    return [panel('unread', 'Runs, rejects and deliveries', note)];
  }
  const files = filesTable(source);
  return [
    files && panel('files', 'Files', files),
    panel('runs', 'Runs', runsTable(name, runs, view)),
    panel('rejects', 'Rejected', rejectTable(name, rejects, now)),
    deliveries && webhooks && panel('deliveries', 'Deliveries', deliveryTable(name, deliveries, webhooks, view)),
    changes.length === 0 ? null : panel('schema', 'Schema log', schemaTable(name, changes, now)),
  ];
}

function schemaTable(source: string, changes: SourceDetails['schema_changes'], now: number): Markup {
  const rows = changes.map(({ changed_at, table, column, ...change }) => [
    timeAs('moment', changed_at, now),
    markup`<code>${table}.${column}</code>`,
    formatColumnChange(change),
  ]);
  const label = `Schema changes of ${source}`;
  return markup`<p class="sub">the newest ${timeAs('ago', changes[0]?.changed_at ?? now, now)}</p>${dataTable({ id: 'schema-table', label, columns: ['When', 'Column', 'Change'], rows })}`;
}

function rejectTable(source: string, rejects: readonly RejectDetails[], now: number): Markup {
  if (rejects.length === 0) return markup`<p class="empty">No record is rejected.</p>`;
  const rows = rejects.map(({ resource, reason, record_id, detail, last_seen_at }) => [
    resource,
    markup`<code>${reason}</code>`,
    record_id ?? NONE,
    detail,
    last_seen_at === null ? NONE : timeAs('ago', last_seen_at, now),
  ]);
  const columns = ['Resource', 'Reason', 'Record', ['Error', 'text'], 'Last seen'] as const;
  return dataTable({ id: 'rejects-table', label: `Rejected records of ${source}`, columns, rows });
}

const DELIVERY_TONES = { waiting: 'quiet', done: 'fine', ignored: 'quiet', dead: 'late' } as const;

/** Recent deliveries, and why requests were refused. */
function deliveryTable(
  source: string,
  deliveries: readonly DeliveryDetails[],
  webhooks: WebhookStatus,
  { now }: SectionView,
): Markup {
  const rows = deliveries.map((one) => [
    `${one.seq}`,
    one.received_at === null ? NONE : timeAs('moment', one.received_at, now),
    stateWord(DELIVERY_TONES[one.state], one.state),
    one.kind ?? NONE,
    one.resource === null ? NONE : [one.resource, one.record_id].filter((part) => part !== null).join(' '),
    formatReason(one, now),
  ]);
  const columns = ['Number', 'Received', 'State', 'Event', 'Record', ['Reason', 'text']] as const;
  const command = `content-sync deliveries replay --source ${source} --dead`;
  const replay =
    webhooks.dead > 0 ? markup`<pre><code>${command}   # processes dead deliveries again</code></pre>` : null;
  const table =
    rows.length === 0
      ? markup`<p class="empty">None has come yet. The service has to post them to <code>${webhooks.path}</code>.</p>`
      : dataTable({ id: 'deliveries-table', label: `Deliveries of ${source}`, columns, rows });
  return markup`${refusedCounts(webhooks)}${replay}${table}`;
}

function refusedCounts({ refused_by }: WebhookStatus): Markup {
  const reasons = Object.entries(refused_by).filter(([, count]) => count > 0);
  if (reasons.length === 0) return markup`<p class="reasons sub">None was refused since the start.</p>`;
  const counts = reasons
    .toSorted((a, b) => b[1] - a[1])
    .map(([reason, count]) => markup`<span><code>${reason}</code> ${formatNumber(count)}</span> `);
  return markup`<p class="reasons"><span class="sub">Refused since the start:</span> ${counts}</p>`;
}

function formatReason({ reason, attempts, due_at, repeats }: DeliveryDetails, now: number): Markup {
  return joinWithDots([
    ...(reason === null ? [] : [reason]),
    ...(attempts > 1 ? [`attempt ${attempts}`] : []),
    ...(due_at !== null && due_at > now ? [markup`again ${timeAs('in', due_at, now)}`] : []),
    ...(repeats > 0 ? [`came ${repeats + 1} times`] : []),
  ]);
}

const FILE_COUNTS = ['stored', 'waiting', 'failed', 'refused', 'gone'] as const satisfies (keyof FilesStatus)[];

/** Files by status; null if the source copies no files. */
function filesTable({ source, resources }: SourceStatus): Markup | null {
  const rows = resources.flatMap(({ resource, files }) => {
    if (files === undefined) return [];
    const counts = FILE_COUNTS.map((status) => countCell(files[status], formatNumber(files[status])));
    return [[resource, ...counts, formatBytes(files.bytes), formatFileError(files)]];
  });
  if (rows.length === 0) return null;
  const counts = [...FILE_COUNTS, 'size'].map(
    (status) => [`${status.slice(0, 1).toUpperCase()}${status.slice(1)}`, 'number'] as const,
  );
  const columns = ['Resource', ...counts, ['For example', 'text'] as const];
  return dataTable({ id: 'files-table', label: `Files of ${source}`, columns, rows });
}

function formatFileError({ trouble }: FilesStatus): Markup | string {
  if (trouble === null) return NONE;
  const code = trouble.code === null ? null : markup` <code>${trouble.code}</code>`;
  return markup`${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}
