import { SyncError } from '../model/errors.ts';
import type { Warning } from './warnings.ts';

/** Thrown where the database was set back behind what it had confirmed to a run, and the resource is ours again. */
export class SetBack extends SyncError {
  constructor(cause: unknown) {
    super('warehouse_set_back', 'the database forgot time and again what it had confirmed', {
      recovery: 'retry',
      hint: 'see whether replicas take turns, or who restores backups; then run the same command again',
      cause,
    });
  }
}

/** Told once of a run that has read again what the database forgot. */
export const SET_BACK: Warning = {
  code: 'warehouse_set_back',
  message: 'the database forgot what it had confirmed to this run, which has read it again',
  hint: 'a replica took over that lagged behind (let the primary wait for one: synchronous_standby_names), or a backup was put in its place',
};
