/**
 * What is planned of a quota that lasts for hours, mostly a day or a month. Live lanes may always use what is left of it.
 * Yielding lanes, such as a backfill, leave a reserve, which shrinks evenly until the quota comes back: so nothing is
 * left over at the end, and a webhook in the evening is not told to wait for the morning. Times are milliseconds of the
 * budget's clock.
 */
export interface PeriodQuota {
  name: string;
  /** Requests per period by the service's word. */
  limit: number;
  from: number;
  until: number;
  /** Requests of ours in this period, and those of them in live lanes. */
  used: number;
  live: number;
  /** Those in live lanes in the period before; null if that is not known. */
  liveBefore: number | null;
  /** Requests so near the end of the period that the service may count them for the next one. */
  late: number;
  /** True while yielding lanes have used what they may, until enough has come free to be worth a start. */
  isHeld: boolean;
}

/** A period as it stands at a moment. */
export interface PeriodLevel {
  quota: PeriodQuota;
  /** Part of the limit that may be used. */
  share: number;
  /** Requests that are left by the service's last word; null if it tells none, and only we count. */
  remaining: number | null;
  /** True if the service says when it comes back: then that nothing is left has a gate of its own. */
  isGated: boolean;
  /** True if requests come back one by one: then there is no end of the period that the reserve could shrink to. */
  trickles: boolean;
}

/** Two clocks may differ by so much: a request this near to the end of a period counts for both. */
const SKEW_MS = 5_000;
/** Part of the quota that yielding lanes leave at the begin of a period; more if live lanes have used more before. */
const RESERVE = 0.2;
const MOST_RESERVE = 0.8;
const LAST_RESERVE = 0.02;
const ABOVE_BEFORE = 1.25;
/** Yielding lanes that were held go on when this part of the quota is free, rather than request by request. */
const BATCH = 0.01;

export function newPeriodQuota(name: string, limit: number, period: { from: number; until: number }): PeriodQuota {
  return { name, limit, ...period, used: 0, live: 0, liveBefore: null, late: 0, isHeld: false };
}

/** Begins the period that follows. */
export function beginPeriod(quota: PeriodQuota, period: { from: number; until: number }): void {
  Object.assign(quota, period, { used: quota.late, live: 0, liveBefore: quota.live, late: 0, isHeld: false });
}

/** Who counts alone waits until no clock can be in the old period any more. */
function skewOf({ remaining }: Pick<PeriodLevel, 'remaining'>): number {
  return remaining === null ? SKEW_MS : 0;
}

export function isOver({ until }: PeriodQuota, at: number, remaining: number | null): boolean {
  return at >= until + skewOf({ remaining });
}

/** Counts one request; `level` is as it stands with that request in it. */
export function noteUse(level: PeriodLevel, at: number, isLive: boolean): void {
  const { quota } = level;
  quota.used += 1;
  if (isLive) quota.live += 1;
  if (at >= quota.until - skewOf(level)) quota.late += 1;
  const free = leftOf(level) - reserveAt(level, at);
  if (free <= 0) quota.isHeld = true;
  else if (free >= batchOf(level)) quota.isHeld = false;
}

/** Requests that may still be sent in this period. */
export function leftOf({ quota, share, remaining }: PeriodLevel): number {
  return Math.max(0, Math.min(mostOf(quota, share) - quota.used, remaining ?? Number.POSITIVE_INFINITY));
}

/** From when on a live lane may send. */
export function opensForLive(level: PeriodLevel, at: number): number {
  const { quota, share, remaining, isGated } = level;
  const isCounted = remaining === null || share < 1;
  const isUsed = isCounted && quota.used >= mostOf(quota, share);
  return isUsed || (!isGated && (remaining ?? 1) < 1) ? reopensAt(level, at) : at;
}

/** From when on a yielding lane may. */
export function opensForYielding(level: PeriodLevel, at: number): number {
  const { quota, remaining } = level;
  if (remaining !== null && remaining < 1) return opensForLive(level, at);
  const left = leftOf(level);
  // Where the limit is so low that all of it is reserve, nothing would ever be asked, nor told of a higher one.
  if (quota.used === 0 && left >= 1) return at;
  const free = left - reserveAt(level, at);
  if (free > 0 && (!quota.isHeld || free >= batchOf(level))) return at;
  if (level.trickles) return Math.min(reopensAt(level, at), at + (quota.until - quota.from) * BATCH);
  // The reserve at the begin, less what it has shrunk by then, leaves a batch.
  const part = (left - lastReserve(level) - batchOf(level)) / fullReserve(level);
  const enough = quota.until - (quota.until - quota.from) * part;
  return part <= 0 || enough >= quota.until ? reopensAt(level, at) : Math.max(at + 1, enough);
}

/** Requests that yielding lanes leave to the live ones. */
function reserveAt(level: PeriodLevel, at: number): number {
  const { from, until } = level.quota;
  const ahead = Math.min(1, Math.max(0, (until - at) / (until - from)));
  return fullReserve(level) * (level.trickles ? 1 : ahead) + lastReserve(level);
}

/** Live requests do not come evenly: so many are left for those of the last minutes. */
function lastReserve({ quota, share }: PeriodLevel): number {
  return Math.max(1, mostOf(quota, share) * LAST_RESERVE);
}

function fullReserve({ quota, share }: PeriodLevel): number {
  const most = mostOf(quota, share);
  return Math.min(most * MOST_RESERVE, Math.max(most * RESERVE, (quota.liveBefore ?? 0) * ABOVE_BEFORE));
}

function mostOf({ limit }: PeriodQuota, share: number): number {
  return Math.max(1, Math.floor(limit * share));
}

function batchOf({ quota, share }: PeriodLevel): number {
  return Math.max(1, Math.ceil(mostOf(quota, share) * BATCH));
}

function reopensAt({ quota, remaining }: PeriodLevel, at: number): number {
  return Math.max(at + 1, quota.until + skewOf({ remaining }));
}
