import type { AlertChannelStatus } from './snapshot.ts';

/** A channel of `alerts` that cannot be reached: who relies on it must be able to see so. */
export function untold({ channel, problem, since }: AlertChannelStatus) {
  if (problem === null) return [];
  const from = since === null ? '' : ` since ${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const what = `Alerts do not get through${from}: ${problem}`;
  const command = `content-sync alerts test ${channel}`;
  const next = 'they are tried again; see whether address and credential are right';
  return [
    { severity: 'look' as const, what, next, command, source: `alerts.${channel}`, resource: null, check: 'untold' },
  ];
}
