import type { Clock } from '../../model/clock.ts';

/** Refusals of one sender that are told one by one in a minute; of the others only how many there were. */
const TOLD_EACH = 10;
const MINUTE_MS = 60_000;

/** The minute of a source, which begins with its first refusal. */
interface Minute {
  begun: number;
  told: number;
  /** Those that were not told, by reason. */
  more: Record<string, number>;
}

/** One refusal with its reason, or how many more there were in a minute. */
export type ToldRefusal = { source?: string } & (
  | { reason: string }
  | { count: number; reasons: Readonly<Record<string, number>> }
);

export interface RefusalLog {
  /** `source` is null for a request that is for none. */
  refused(source: string | null, reason: string): void;
  /** Tells of what was only counted, for minutes that are over, or `all` of them. */
  flush(all?: boolean): void;
}

/** Tells why requests are refused, in few lines however many come. Nothing of what was sent stands in them. */
export function createRefusalLog(tell: (told: ToldRefusal) => void, clock: Pick<Clock, 'monotonic'>): RefusalLog {
  const minutes = new Map<string | null, Minute>();
  const flush = (all = false): void => {
    for (const [source, { begun, more }] of minutes) {
      if (!all && clock.monotonic() - begun < MINUTE_MS) continue;
      minutes.delete(source);
      const count = Object.values(more).reduce((sum, one) => sum + one, 0);
      if (count > 0) tell({ ...(source !== null && { source }), count, reasons: more });
    }
  };
  return {
    refused: (source, reason) => {
      flush();
      const minute = minutes.get(source) ?? { begun: clock.monotonic(), told: 0, more: {} };
      minutes.set(source, minute);
      minute.told += 1;
      if (minute.told <= TOLD_EACH) tell({ ...(source !== null && { source }), reason });
      else minute.more[reason] = (minute.more[reason] ?? 0) + 1;
    },
    flush,
  };
}
