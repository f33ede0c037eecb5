import type { ControlRequest } from '../controls/control-request.ts';
import type { ResourceStatus, SourceStatus } from '../status/snapshot.ts';
import { markup, type Markup } from './markup.ts';

// Each function returns null if the reader of the page may not control the process.

/** A disabled button keeps its place, so that no other button moves under the pointer. */
function button(request: ControlRequest, text: string, title: string, isEnabled = true): Markup {
  return markup`<button form="control" name="request" value="${JSON.stringify(request)}" title="${title}"${!isEnabled && markup` disabled`}>${text}</button>`;
}

/** A control with consequences: its button appears once the explanation is opened. */
function fold(id: string, title: string, explanation: string, control: Markup): Markup {
  return markup`<details class="fold" id="${id}"><summary>${title}</summary><p>${explanation} ${control}</p></details>`;
}

/** The controls of a source, or of one of its resources. */
export function controlBar(source: SourceStatus, status: ResourceStatus | null, may: boolean): Markup | null {
  if (!may) return null;
  const target = { source: source.source, ...(status !== null && { resource: status.resource }) };
  const name = status === null ? 'all resources' : status.resource;
  const resources = status === null ? source.resources : [status];
  const pausedCount = resources.filter(({ paused }) => paused !== null).length;
  const fullScan = button({ action: 'sync', mode: 'full', ...target }, 'Begin the full scan', `Read all of ${name}`);
  const fullText = `Reads every record of ${name} again, which may take long and many requests.`;
  const retryTitle = `Try ${name} again at once, with the settings as they are`;
  const pauseTitle = `Start no further run of ${name} until it is resumed`;
  const canPause = pausedCount < resources.length;
  return markup`<div class="controls" role="group" aria-label="Controls of ${name}">${[
    button({ action: 'sync', mode: 'incremental', ...target }, 'Sync now', `Read what has changed in ${name}`),
    button({ action: 'retry', ...target }, 'Retry', retryTitle, resources.some(hasFailed)),
    button({ action: 'pause', ...target }, 'Pause', pauseTitle, canPause),
    button({ action: 'resume', ...target }, 'Resume', `Let the schedule continue with ${name}`, pausedCount > 0),
    fold(`full-${source.source}-${status?.resource ?? ''}`, 'Full scan…', fullText, fullScan),
  ]}</div>`;
}

/** True if the last run failed. A run that the service deferred is not retried before its time. */
function hasFailed({ runs, running }: ResourceStatus): boolean {
  return running === null && runs.find(({ status }) => status !== 'running')?.status === 'failed';
}

/** The two decisions about held deletes. */
export function heldControls(source: string, resource: string, may: boolean): Markup | null {
  if (!may) return null;
  const confirmText =
    'Each record is fetched once more. If the service no longer has it, its row is marked as deleted.';
  const discardText = 'The rows stay live until another scan does not find them.';
  const confirm = button({ action: 'confirm', source, resource }, 'Confirm these deletes', 'Mark the rows as deleted');
  const discard = button({ action: 'discard', source, resource }, 'Discard these deletes', 'Keep the rows live');
  return markup`<div class="controls">${[
    fold(`confirm-${source}-${resource}`, 'They are gone…', confirmText, confirm),
    fold(`discard-${source}-${resource}`, 'They are not…', discardText, discard),
  ]}</div>`;
}

/** Replays one dead delivery, or all of them if `id` is null. */
export function replayButton(source: string, id: string | null, may: boolean): Markup | null {
  if (!may) return null;
  return id === null
    ? button({ action: 'replay', source }, 'Replay all dead', 'Process all dead deliveries again')
    : button({ action: 'replay', source, ids: [id] }, 'Replay', 'Process this delivery again');
}

export function reloadButton(may: boolean): Markup | null {
  const title = 'Read the config again; a bad one is refused, and the old one stays';
  return may ? markup`<div class="controls">${button({ action: 'reload' }, 'Reload config', title)}</div>` : null;
}
