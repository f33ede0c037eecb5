import type { Clock } from '../../model/clock.ts';
import type { ReceiverNote } from './setup.ts';
import type { RefusalReason } from './answer.ts';

/** Refusals of one source that are told one by one in a minute; of the others only how many there were. */
const TOLD_EACH = 10;
const MINUTE_MS = 60_000;

/** The minute of a source, which begins with its first refusal. */
interface Minute {
  begun: number;
  told: number;
  /** Those that were not told, by reason. */
  more: Partial<Record<RefusalReason, number>>;
}

export interface RefusedDeliveries {
  /** Tells of a refused delivery. `source` is null for one that is none's here. */
  refused(source: string | null, reason: RefusalReason): void;
  /** Tells of what was only counted, for minutes that are over, or `all` of them. */
  flush(all?: boolean): void;
}

/** Notes why deliveries are refused, in few lines however many come. Nothing of what was sent stands in them. */
export function refusedDeliveries(
  note: (note: ReceiverNote) => void,
  clock: Pick<Clock, 'monotonic'>,
): RefusedDeliveries {
  const minutes = new Map<string | null, Minute>();
  const flush = (all = false): void => {
    for (const [source, { begun, more }] of minutes) {
      if (!all && clock.monotonic() - begun < MINUTE_MS) continue;
      minutes.delete(source);
      const count = Object.values(more).reduce((sum, one) => sum + one, 0);
      if (count === 0) continue;
      const text = `delivery_refused: and ${count} more in this minute`;
      note({ level: 'warn', event: text, ...named(source), count, reasons: more });
    }
  };
  return {
    refused: (source, reason) => {
      flush();
      const minute = minutes.get(source) ?? { begun: clock.monotonic(), told: 0, more: {} };
      minutes.set(source, minute);
      minute.told += 1;
      if (minute.told <= TOLD_EACH) note({ level: 'warn', event: 'delivery_refused', ...named(source), reason });
      else minute.more[reason] = (minute.more[reason] ?? 0) + 1;
    },
    flush,
  };
}

function named(source: string | null): Pick<ReceiverNote, 'source'> {
  return source === null ? {} : { source };
}
