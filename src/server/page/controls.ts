import type { ControlRequest } from '../controls/control-request.ts';
import type { ResourceStatus, SourceStatus } from '../status/snapshot.ts';
import { markup, type Markup } from './markup.ts';

/** A button of the page's one form. One that does nothing now is disabled, not left out, so that no other takes its place. */
function button(request: ControlRequest, text: string, title: string, isEnabled = true): Markup {
  return markup`<button form="control" name="request" value="${JSON.stringify(request)}" title="${title}"${isEnabled ? null : markup` disabled`}>${text}</button>`;
}

/** What can be done with a source, or with one of its resources; empty if nothing may be. */
export function controlBar(source: SourceStatus, status: ResourceStatus | null, may: boolean): Markup | null {
  if (!may) return null;
  const about = { source: source.source, ...(status !== null && { resource: status.resource }) };
  const what = status === null ? 'all resources' : status.resource;
  const resources = status === null ? source.resources : [status];
  const isFailed = resources.some(hasFailed);
  const paused = resources.filter(({ paused }) => paused !== null).length;
  const isPaused = paused === resources.length;
  return markup`<div class="controls" role="group" aria-label="Controls of ${what}">${[
    button({ action: 'sync', mode: 'incremental', ...about }, 'Sync now', `Read what has changed in ${what}`),
    button(
      { action: 'retry', ...about },
      'Retry',
      `Try ${what} again at once, with the settings as they are`,
      isFailed,
    ),
    button({ action: 'pause', ...about }, 'Pause', `Start no further run of ${what} until it is resumed`, !isPaused),
    button({ action: 'resume', ...about }, 'Resume', `Let the schedule go on with ${what}`, paused > 0),
    fold(
      `full-${source.source}-${status?.resource ?? ''}`,
      'Full walk…',
      markup`Reads every record of ${what} again, which may take long and many requests. ${button({ action: 'sync', mode: 'full', ...about }, 'Begin the full walk', `Read all of ${what}`)}`,
    ),
  ]}</div>`;
}

/** True if the last run was refused or failed. What the service has put off is not to be tried before its time. */
function hasFailed({ runs, running }: ResourceStatus): boolean {
  return running === null && runs.find(({ status }) => status !== 'running')?.status === 'failed';
}

/** A control that is worth a second look: its button only shows once it is opened. */
function fold(id: string, title: string, content: Markup): Markup {
  return markup`<details class="fold" id="${id}"><summary>${title}</summary><p>${content}</p></details>`;
}

/** Both ways to decide on deletes that are held back. */
export function heldControls(source: string, resource: string, may: boolean): Markup | null {
  if (!may) return null;
  return markup`<div class="controls">${[
    fold(
      `confirm-${source}-${resource}`,
      'They are gone…',
      markup`Each is read once more, and its row is marked as deleted where the service no longer has it. ${button({ action: 'confirm', source, resource }, 'Confirm these deletes', 'Mark the rows as deleted')}`,
    ),
    fold(
      `discard-${source}-${resource}`,
      'They are not…',
      markup`The rows stay live, until another walk does not meet them. ${button({ action: 'discard', source, resource }, 'Discard these deletes', 'Keep the rows live')}`,
    ),
  ]}</div>`;
}

/** For all deliveries that could not be worked on, or one of them. */
export function replayButton(source: string, id: string | null, may: boolean): Markup | null {
  if (!may) return null;
  const request: ControlRequest = { action: 'replay', source, ...(id !== null && { ids: [id] }) };
  return id === null
    ? button(request, 'Replay all dead', 'Work on all dead deliveries again')
    : button(request, 'Replay', 'Work on this delivery again');
}

/** Of the process as a whole. */
export function reloadButton(may: boolean): Markup | null {
  if (!may) return null;
  return markup`<div class="controls">${button({ action: 'reload' }, 'Reload config', 'Read the config again; a bad one is refused, and the old one stays')}</div>`;
}
