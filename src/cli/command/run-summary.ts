import { visibleText } from '../../model/visible-text.ts';
import { countText, durationText } from '../../observe/figures.ts';
import type { ResourceReport, RunReport } from '../../sync/report.ts';
import { reportOnce } from '../../observe/report-once.ts';

/** The end of a run for a person: a line per resource, and advice for those that did not end well. */
export function summaryText(report: RunReport): string {
  const width = Math.max(...report.resources.map(({ resource }) => resource.length));
  const once = reportOnce();
  const lines = report.resources.flatMap((resource) => [
    `${resource.resource.padEnd(width)}  ${figuresOf(resource)}`,
    ...adviceOf(resource, once).map((line) => `${' '.repeat(width)}  ${line}`),
  ]);
  return lines.map((line) => `${visibleText(line)}\n`).join('');
}

function figuresOf(report: ResourceReport): string {
  const { status, mode, inserted, updated, unchanged, deleted, held, rejected, requests, limited, seconds } = report;
  const { forgotten = 0 } = report;
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    ...(deleted > 0 ? [`${countText(deleted)} deleted`] : []),
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} set aside`] : []),
    ...(forgotten > 0 ? [`${countText(forgotten)} dropped as forgotten`] : []),
    `${countText(requests)} ${requests === 1 ? 'request' : 'requests'}`,
    ...(limited > 0 ? [`${countText(limited)} of them limited`] : []),
    durationText(seconds),
  ];
  return `${status} (${mode}): ${parts.join(', ')}`;
}

function adviceOf(
  { resource, error, rejected, warnings }: ResourceReport,
  once: ReturnType<typeof reportOnce>,
): string[] {
  const said = error === undefined ? undefined : once(resource, error);
  const hint = error?.code === 'bug' ? 'please report it; --log-level error shows where it happened' : said?.hint;
  return [
    ...(error === undefined ? [] : [`${said?.message} [${error.code}]`]),
    ...(hint === undefined ? [] : [`→ ${hint}`]),
    ...(warnings ?? []).flatMap((warning) => [warning.message, `→ ${warning.hint}`]),
    ...(rejected > 0 ? ['→ the records set aside stand in _sync_rejects, each with its reason and its body'] : []),
  ];
}
