import { bytesText, countText, NONE } from '../../observe/figures.ts';
import type { WebhookStatus } from '../../serve/status/snapshot.ts';
import type { DeliveryDetails, RejectDetails } from '../../serve/status/source-details.ts';
import { replayButton } from './controls.ts';
import { icon, type Tone } from './icon.ts';
import { ago, markup, type Markup, moment, until } from './markup.ts';
import { wide, type SectionView } from './page-frame.ts';

/** Records that could not become rows, each with what it holds, where the reader may see that. */
export function rejectTable(source: string, rejects: readonly RejectDetails[], now: number): Markup {
  const rows = rejects.map(
    ({ resource, reason, record_id, detail, last_seen_at, body, length }, at) =>
      markup`<tr><td>${resource}</td><td><code>${reason}</code></td><td>${record_id ?? NONE}</td><td class="text">${detail}</td><td>${last_seen_at === null ? NONE : ago(last_seen_at, now)}</td><td class="record">${bodyFold(`reject-${at}`, body, length, countText(length))}</td></tr>`,
  );
  const head = headOf(['Resource', 'Reason', 'Record', 'Fault', 'Last seen', 'Body']);
  return wide('rejects-table', `Records of ${source} set aside`, markup`${head}<tbody>${rows}</tbody>`);
}

const STATES: Readonly<Record<DeliveryDetails['state'], Tone>> = {
  waiting: 'quiet',
  done: 'fine',
  ignored: 'quiet',
  dead: 'late',
};

/** What webhooks have told lately, and why some of them were refused. */
export function deliveryTable(
  source: string,
  deliveries: readonly DeliveryDetails[],
  webhooks: WebhookStatus,
  { now, may }: SectionView,
): Markup {
  const rows = deliveries.map(
    (one, at) =>
      markup`<tr><td>${one.received_at === null ? NONE : moment(one.received_at, now)}</td><td><span class="state ${STATES[one.state]}">${icon(STATES[one.state])}${one.state}</span></td><td>${one.kind ?? NONE}</td><td>${recordOf(one)}</td><td class="text">${reasonOf(one, now)}</td><td class="record">${one.state === 'dead' ? replayButton(source, String(one.seq), may) : null}${bodyFold(`delivery-${at}`, one.body, one.length, bytesText(one.length))}</td></tr>`,
  );
  const head = headOf(['Received', 'State', 'Event', 'Record', 'Reason', 'Body']);
  const replay = webhooks.dead > 0 ? markup`<div class="controls">${replayButton(source, null, may)}</div>` : null;
  const table =
    rows.length === 0
      ? markup`<p class="empty">None has come yet. The service has to post them to <code>${webhooks.path}</code>.</p>`
      : wide('deliveries-table', `Deliveries of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
  return markup`${refusals(webhooks)}${replay}${table}`;
}

function refusals({ refused_by }: WebhookStatus): Markup {
  const reasons = Object.entries(refused_by).filter(([, count]) => count > 0);
  if (reasons.length === 0) return markup`<p class="reasons sub">None was refused since the start.</p>`;
  const told = reasons
    .toSorted((a, b) => b[1] - a[1])
    .map(([reason, count]) => markup`<span><code>${reason}</code> ${countText(count)}</span> `);
  return markup`<p class="reasons"><span class="sub">Refused since the start:</span> ${told}</p>`;
}

function recordOf({ resource, record_id }: DeliveryDetails): string {
  if (resource === null) return NONE;
  return record_id === null ? resource : `${resource} ${record_id}`;
}

function reasonOf({ reason, attempts, due_at, repeats }: DeliveryDetails, now: number): Markup {
  const notes = [
    ...(reason === null ? [] : [markup`${reason}`]),
    ...(attempts > 1 ? [markup`attempt ${attempts}`] : []),
    ...(due_at !== null && due_at > now ? [markup`again ${until(due_at, now)}`] : []),
    ...(repeats > 0 ? [markup`came ${repeats + 1} times`] : []),
  ];
  return markup`${notes.map((note, at) => (at === 0 ? note : markup` · ${note}`))}`;
}

function headOf(titles: readonly string[]): Markup {
  return markup`<thead><tr>${titles.map((title) => markup`<th scope="col">${title}</th>`)}</tr></thead>`;
}

/** What is shown stands on one line: a line break in it would be made visible. */
function bodyFold(id: string, body: string | null, length: number, size: string): Markup {
  if (body === null) return markup`<span class="sub">shown where serve.auth is set</span>`;
  const cut = body.length < length ? markup`\n… cut here, of ${size}` : null;
  const lines = body.split(/\r?\n/).map((line, at) => (at === 0 ? markup`${line}` : markup`\n${line}`));
  return markup`<details id="${id}"><summary>${size}</summary><pre tabindex="0"><code>${lines}${cut}</code></pre></details>`;
}
