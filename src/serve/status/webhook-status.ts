import { timestampMs } from '../../model/timestamp-text.ts';
import type { SourceActivity } from '../../observe/activity.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { WebhookStatus } from './snapshot.ts';
import { problemOf, type StatusParts, type WaitingFigures } from './source-status.ts';

/** Null if no webhooks are configured. */
export async function webhookStatus(parts: StatusParts, now: number): Promise<WebhookStatus | null> {
  const { activity, inbox, scrub, source } = parts;
  if (inbox === null) return null;
  const traffic = webhookTraffic(activity, now);
  try {
    const figures = await inbox();
    const { waiting, dead, different, oldest } = figures;
    const oldest_at = oldest === null ? null : timestampMs(oldest);
    return { ...traffic, problem: null, waiting, full: fullness(figures, source.webhook), dead, different, oldest_at };
  } catch (error) {
    const nothing = { waiting: 0, full: 0, dead: 0, different: 0, oldest_at: null };
    return { ...traffic, problem: problemOf(error, scrub), ...nothing };
  }
}

function fullness({ waiting, waitingBytes }: WaitingFigures, webhook: SourceSettings['webhook']): number {
  if (webhook === null) return 0;
  return Math.min(1, Math.max(waiting / webhook.max_waiting, waitingBytes / webhook.max_waiting_size));
}

/** The webhooks that came in; the figures of the inbox are added by the caller. */
function webhookTraffic(
  activity: SourceActivity,
  now: number,
): Omit<WebhookStatus, 'problem' | 'waiting' | 'full' | 'oldest_at' | 'dead' | 'different'> {
  const delays = activity.delays.total(now);
  const [refused, spread] = [activity.refused.minutes(now), activity.delays.minutes(now)];
  return {
    path: `/webhooks/${activity.source}`,
    last_received_at: activity.lastReceivedAt,
    received: activity.received.total(now).count,
    refused: activity.refused.total(now).count,
    refused_by: activity.refusedBy,
    delay_p50_ms: delays.p50,
    delay_p95_ms: delays.p95,
    minutes: activity.received.minutes(now).map((minute, index) => ({
      at: minute.at,
      received: minute.count,
      refused: refused[index]?.count ?? 0,
      p50_ms: spread[index]?.p50 ?? null,
      p95_ms: spread[index]?.p95 ?? null,
    })),
  };
}
