import { formatColumnChange } from '../../model/schema-change.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { bytesText, countOf, countText, delayText, NONE } from '../../observe/figures.ts';
import { MOST_REJECTS, type RunDetails } from '../../state/run-history.ts';

/** What there is to know of one resource's part in a run, as lines under a title: the CLI and the page show the same. */
export interface RunFact {
  title: string;
  lines: string[];
}

export function runFacts(part: RunDetails): RunFact[] {
  const changes = part.schema_changes.map(
    ({ table, column, ...change }) => `${table}.${column}: ${formatColumnChange(change)}`,
  );
  const all = [
    ...timeFacts(part),
    fact('records', recordsText(part)),
    fact('requests', requestsText(part)),
    ...errorFacts(part),
    ...part.warnings.map(({ code, message, hint, accepted }) =>
      fact(accepted === true ? 'accepted' : 'warning', `${message} [${code}]`, `→ ${hint}`),
    ),
    fact('schema', ...changes),
    fact('set aside', ...rejectLines(part)),
  ];
  return all.filter(({ lines }) => lines.length > 0);
}

function fact(title: string, ...lines: string[]): RunFact {
  return { title, lines };
}

function timeFacts({ started_at, finished_at, runs, first_started_at, ...part }: RunDetails): RunFact[] {
  const took = finished_at === null ? 'is under way' : `took ${delayText(finished_at - started_at)}`;
  const began = fact('began', `${timestampText(started_at)} UTC, ${took}`);
  if (runs === 1) return [began];
  const before = `${countText(runs)} runs that changed nothing, the first at ${timestampText(first_started_at)} UTC`;
  const sum = `${countOf(part.all_requests, 'request')}, ${bytesText(part.all_bytes)}`;
  return [began, fact('stands for', `${before}: ${sum} in all`)];
}

function recordsText({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} set aside`] : []),
  ];
  return `${countText(records)} on ${countOf(pages, 'page')}: ${parts.join(', ')}`;
}

function requestsText({ requests, retries, limited, bytes, outcomes, runs }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${countText(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome${runs > 1 ? ', of all runs' : ''}: ${counted.join(', ')}`;
  return `${countText(requests)}, ${countText(retries)} retried, ${countText(limited)} limited, ${bytesText(bytes)}${by}`;
}

function errorFacts({ error }: RunDetails): RunFact[] {
  if (error === null) return [];
  const lines = [`${error.message} [${error.code}]`, ...(error.hint === null ? [] : [`→ ${error.hint}`])];
  return [fact('error', ...lines), fact('request id', ...(error.request_id === null ? [] : [error.request_id]))];
}

function rejectLines({ rejects, rejected }: RunDetails): string[] {
  const lines = rejects.map(
    ({ reason, record_id, detail, is_resolved }) =>
      `${reason}  ${record_id ?? NONE}  ${detail}${is_resolved ? ' (came in well since, or is no longer listed)' : ''}`,
  );
  const isCut = rejects.length === MOST_REJECTS && rejected > MOST_REJECTS;
  return isCut ? [...lines, `and more, of ${countText(rejected)}: all stand in _sync_rejects`] : lines;
}
