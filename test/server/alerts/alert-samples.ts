import { alertsSchema, type ChannelSettings } from '../../../src/config/alerts-schema.ts';
import type { Condition } from '../../../src/server/alerts/plan-alerts.ts';

export const START = Date.parse('2026-11-20T08:00:00Z');

/** Settings of a channel, as a config would have them. */
export function channelWith(fields: Record<string, unknown> = {}): ChannelSettings {
  const usual = fields['type'] === 'email' ? {} : { type: 'post', url: 'http://127.0.0.1:9/' };
  const { ops } = alertsSchema.parse({ ops: { ...usual, ...fields } });
  if (ops === undefined) throw new Error('no channel');
  return ops;
}

export function conditionOf(fields: Partial<Condition> = {}): Condition {
  const { kind = 'failed', resource = 'content' } = fields;
  const usual = { kind, resource, alert: `${kind} ${resource}`, source: 'blog', since: START, what: 'it failed' };
  return { ...usual, next: null, command: null, cause: 'unreachable', count: 1, ...fields };
}
