import type { SourceActivity } from '../../observe/activity.ts';
import type { Minute } from '../../observe/minute-series.ts';
import type { GovernorFigures } from '../../queue/governor.ts';
import type { LimitStatus, SourceStatus, WebhookStatus } from './snapshot.ts';

const MINUTE_MS = 60_000;
/** Of a minute that has just begun nothing is told yet: its part would jump. */
const LEAST_MS = 10_000;

interface Times {
  /** Epoch milliseconds. */
  now: number;
  startedAt: number;
}

/** How the limit was used; `governor` is null where the source could not be opened. */
export function limitStatus(
  activity: SourceActivity,
  governor: GovernorFigures | null,
  share: number,
  times: Times,
): LimitStatus {
  const { now } = times;
  const rates = activity.allowed.minutes(now);
  const limited = activity.limited.minutes(now);
  const known = governor?.allowedPerSecond ?? null;
  const minutes = activity.requests.minutes(now).map((minute, index) => {
    const used = usedIn(minute, rateOf(rates[index]) ?? known, times);
    return { at: minute.at, requests: minute.count, limited: limited[index]?.count ?? 0, used };
  });
  const seen = minutes.map((minute) => minute.used).filter((used) => used !== null);
  return {
    allowed_per_second: known,
    share,
    paused_until: governor?.pausedUntil ?? null,
    requests: activity.requests.total(now).count,
    limited: activity.limited.total(now).count,
    used: seen.length === 0 ? null : seen.reduce((sum, used) => sum + used, 0) / seen.length,
    minutes,
  };
}

function rateOf(minute: Minute | undefined): number | null {
  return minute === undefined || minute.count === 0 ? null : minute.sum / minute.count / 1_000;
}

/** Null before the process began, in a minute that has only begun, and where no limit is known. */
function usedIn({ at, count }: Minute, rate: number | null, { now, startedAt }: Times): number | null {
  const ms = Math.min(at + MINUTE_MS, now) - Math.max(at, startedAt);
  return rate === null || ms < LEAST_MS ? null : count / (rate * (ms / 1_000));
}

/** What came by webhook; waiting and dead deliveries are added by who can see the inbox. */
export function webhookTraffic(
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

/** Rows that changed in the last hour, by what told of it. */
export function changesStatus({ changes }: SourceActivity, now: number): SourceStatus['changes'] {
  return { by_webhook: changes.webhook.total(now).count, by_schedule: changes.incremental.total(now).count };
}
