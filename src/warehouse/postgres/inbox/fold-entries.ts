import type { InboxEffect, InboxEntry, NewDelivery, SettledColumns, Settlement } from '../../inbox.ts';
import { repetition, type Repetition } from '../../repetition.ts';

/** A delivery as it stands while entries are folded into it. */
export interface InboxRow extends SettledColumns {
  delivery_id: string;
  repeats: number;
  events: number;
  /** The request that it is to be worked on by from now on; null where that stays as it is. */
  renewed: NewDelivery | null;
}

/** What entries come to: an effect for each, and the deliveries that are not any more as they stand there. */
interface Folded {
  effects: InboxEffect[];
  changed: InboxRow[];
}

const FROM_THE_START = { state: 'waiting', attempts: 0, due_at: null, finished_at: null } as const;
const UNREAD = { reason: null, kind: null, resource: null, record_id: null, renewed: null };

/** A delivery as it was just inserted. */
function inserted(seq: number, delivery_id: string): InboxRow {
  return { seq, delivery_id, ...FROM_THE_START, ...UNREAD, repeats: 0, events: 1 };
}

/** What a repeat makes of the delivery that stands there. */
const REPEATED: Readonly<
  Record<Repetition, { effect: InboxEffect; of: (standing: InboxRow, delivery: NewDelivery) => Partial<InboxRow> }>
> = {
  count: { effect: 'repeat', of: () => ({}) },
  countEvent: { effect: 'repeat', of: ({ events }) => ({ events: events + 1 }) },
  waitAgain: {
    effect: 'again',
    of: ({ events }, delivery) => ({ ...FROM_THE_START, events: events + 1, renewed: delivery }),
  },
};

/**
 * Entries one after the other, as SQLite writes them, but in memory. `fresh` are the deliveries that this transaction
 * has inserted, `there` those that stood there before. Throws where a delivery is in neither.
 */
export function foldEntries(
  entries: readonly InboxEntry[],
  fresh: ReadonlyMap<string, number>,
  there: readonly InboxRow[],
): Folded {
  const bySeq = new Map(there.map((standing) => [standing.seq, standing]));
  const seqs = new Map(there.map(({ delivery_id, seq }) => [delivery_id, seq]));
  const changed = new Set<number>();

  function change(standing: InboxRow, changes: Partial<InboxRow>): void {
    bySeq.set(standing.seq, { ...standing, ...changes });
    changed.add(standing.seq);
  }

  function store(delivery: NewDelivery): InboxEffect {
    const { delivery_id, is_id_sent } = delivery;
    const seq = seqs.get(delivery_id);
    if (seq === undefined) return storeFirst(delivery);
    const standing = standingAt(seq);
    const { effect, of } = REPEATED[repetition(standing.state, is_id_sent)];
    change(standing, { repeats: standing.repeats + 1, ...of(standing, delivery) });
    return effect;
  }

  function storeFirst({ delivery_id, differs_from }: NewDelivery): InboxEffect {
    const seq = fresh.get(delivery_id);
    if (seq === undefined) throw new Error('a delivery that is there and is not');
    seqs.set(delivery_id, seq);
    bySeq.set(seq, inserted(seq, delivery_id));
    return differs_from === undefined ? 'new' : 'different';
  }

  function settle({ readEvents, ...settlement }: Settlement): InboxEffect {
    const standing = bySeq.get(settlement.seq);
    if (standing === undefined || (readEvents ?? standing.events) !== standing.events) return 'overtaken';
    change(standing, settlement);
    return 'settled';
  }

  function standingAt(seq: number): InboxRow {
    const standing = bySeq.get(seq);
    if (standing === undefined) throw new Error('a delivery that stands nowhere');
    return standing;
  }

  const effects = entries.map((entry) => ('delivery' in entry ? store(entry.delivery) : settle(entry.settlement)));
  return { effects, changed: [...changed].map(standingAt) };
}
