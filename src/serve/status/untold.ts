import type { Attention } from './attention.ts';
import type { AlertChannelStatus } from './snapshot.ts';

/** Something that a check has found, with the check's name. */
export interface Checked extends Attention {
  check: string;
}

/** A channel of `alerts` that cannot be reached: who relies on it must be able to see so. */
export function untold({ channel, problem, since }: AlertChannelStatus): Checked[] {
  if (problem === null) return [];
  const from = since === null ? '' : ` since ${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const what = `Alerts do not get through${from}: ${problem}`;
  const command = `content-sync alerts test ${channel}`;
  const next = 'they are tried again; see whether address and credential are right';
  return [{ severity: 'look', what, next, command, source: `alerts.${channel}`, resource: null, check: 'untold' }];
}
