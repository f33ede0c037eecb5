import { SyncError } from '../model/errors.ts';

export const PAGE_OUTDATED = 'page_outdated';

/** For a page that was compared with what is no longer so: to be compared again. */
export function pageOutdated(resource: string): SyncError {
  return new SyncError(PAGE_OUTDATED, `another process has changed rows of ${resource} since this page was compared`, {
    recovery: 'retry',
    hint: 'run the same command again',
  });
}
