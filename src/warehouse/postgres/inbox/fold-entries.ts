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

const FROM_THE_START = { state: 'waiting', attempts: 0, due_at: null, finished_at: null } as const;
const UNREAD = { reason: null, kind: null, resource: null, record_id: null, renewed: null };
/** A delivery as it was just inserted, but for its id. */
const INSERTED = { ...FROM_THE_START, ...UNREAD, repeats: 0, events: 1 };

/** The change that a repeat makes to its delivery. */
const REPEATED: Readonly<
  Record<Repetition, { effect: InboxEffect; of: (row: InboxRow, delivery: NewDelivery) => Partial<InboxRow> }>
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
 * has inserted, `existing` those from before. Returns an effect for each entry, and the deliveries that have changed.
 * Throws if a delivery is in neither.
 */
export function foldEntries(
  entries: readonly InboxEntry[],
  fresh: ReadonlyMap<string, number>,
  existing: readonly InboxRow[],
): { effects: InboxEffect[]; changed: InboxRow[] } {
  const bySeq = new Map(existing.map((row) => [row.seq, row]));
  const seqs = new Map(existing.map(({ delivery_id, seq }) => [delivery_id, seq]));
  const changed = new Set<number>();

  function change(row: InboxRow, changes: Partial<InboxRow>): void {
    bySeq.set(row.seq, { ...row, ...changes });
    changed.add(row.seq);
  }

  function store(delivery: NewDelivery): InboxEffect {
    const { delivery_id, is_id_sent } = delivery;
    const seq = seqs.get(delivery_id);
    if (seq === undefined) return storeFirst(delivery);
    const row = rowAt(seq);
    const { effect, of } = REPEATED[repetition(row.state, is_id_sent)];
    change(row, { repeats: row.repeats + 1, ...of(row, delivery) });
    return effect;
  }

  function storeFirst({ delivery_id, differs_from }: NewDelivery): InboxEffect {
    const seq = fresh.get(delivery_id);
    if (seq === undefined) throw new Error('a delivery that is there and is not');
    seqs.set(delivery_id, seq);
    bySeq.set(seq, { seq, delivery_id, ...INSERTED });
    return differs_from === undefined ? 'new' : 'different';
  }

  function settle({ readEvents, ...settlement }: Settlement): InboxEffect {
    const row = bySeq.get(settlement.seq);
    if (row === undefined || (readEvents ?? row.events) !== row.events) return 'overtaken';
    change(row, settlement);
    return 'settled';
  }

  function rowAt(seq: number): InboxRow {
    const row = bySeq.get(seq);
    if (row === undefined) throw new Error('a delivery that is nowhere');
    return row;
  }

  const effects = entries.map((entry) => ('delivery' in entry ? store(entry.delivery) : settle(entry.settlement)));
  return { effects, changed: [...changed].map(rowAt) };
}
