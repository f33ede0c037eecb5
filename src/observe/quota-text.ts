import { countText, inText } from './figures.ts';

/** A quota by day or month, as people and programs are told of it; moments in epoch milliseconds. */
export interface ShownQuota {
  name: string;
  /** Requests per period. */
  limit: number;
  /** Requests that the account has used in this one, as far as is known. */
  used: number;
  /** Those that may still be sent: less than are left where only a share may be used. */
  left: number;
  /** When all of it is there again. */
  resets_at: number;
  /** Until when a backfill waits, so that changes and webhooks have some left; null if it need not. */
  held_until: number | null;
}

/** The same, as the governor tells it. */
export function shownQuota(quota: {
  name: string;
  limit: number;
  used: number;
  left: number;
  resetsAt: number;
  heldUntil: number | null;
}): ShownQuota {
  const { name, limit, used, left, resetsAt, heldUntil } = quota;
  return { name, limit, used, left, resets_at: resetsAt, held_until: heldUntil };
}

/** `8,120 of 10,000 used, 880 may be sent, all of it again in 3h 20m`. */
export function quotaText({ limit, used, left, resets_at: resets, held_until: held }: ShownQuota, now: number): string {
  const backfill = held === null || held <= now ? '' : `; a backfill goes on ${inText(held, now)}`;
  return `${countText(used)} of ${countText(limit)} used, ${countText(left)} may be sent, all of it again ${inText(resets, now)}${backfill}`;
}
