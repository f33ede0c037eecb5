import { agoText, countOf } from '../../observe/figures.ts';
import { troubleText } from './file-status.ts';
import type { ResourceStatus, SourceStatus } from './snapshot.ts';

/** Nothing is lost meanwhile, and nothing of what is new comes. */
export function filesStopped({ files_stopped: stopped }: SourceStatus, now: number) {
  if (stopped === undefined) return null;
  const since = stopped.since === null ? '' : `, which began ${agoText(stopped.since, now)}`;
  const what = `No files are fetched${since}: ${stopped.message} [${stopped.code}]`;
  return { severity: 'late' as const, what, next: stopped.hint ?? 'it goes on by itself once it can', command: null };
}

/** What is not here of the files that records show; what the service no longer has is no fault of anybody's. */
export function filesMissing({ files }: ResourceStatus, _now: number, { source }: SourceStatus) {
  if (files === undefined || files.failed + files.refused === 0) return null;
  const more =
    files.failed > 0 && files.refused > 0 ? `; ${countOf(files.refused, 'file is', 'files are')} refused` : '';
  const next =
    files.failed > 0
      ? 'they are asked for again by themselves; see which'
      : 'the profile does not admit them: see which, and change `files` if they should be copied';
  const command = `content-sync files status --source ${source}`;
  return { severity: 'look' as const, what: `${troubleText(files)}${more}`, next, command };
}
