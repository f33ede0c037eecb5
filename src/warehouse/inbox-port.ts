import type { DeliveryRow, InboxPort, InboxSettlement } from './inbox.ts';

interface PortParts {
  waiting: InboxPort['waiting'];
  /** Stores settlements; they are stored once it resolves. */
  settle: (settlements: readonly InboxSettlement[]) => Promise<void>;
}

/**
 * A port that remembers what each delivery was when it was first handed out: what comes again between its reading and
 * its settlement (the same body may be a new event) is not settled with it.
 */
export function inboxPort({ waiting, settle }: PortParts): InboxPort {
  const handedOut = new Map<number, number>();
  const remember = ({ seq, events }: DeliveryRow): void => {
    if (!handedOut.has(seq)) handedOut.set(seq, events);
  };
  return {
    waiting: async (after, now, limit) => {
      const rows = await waiting(after, now, limit);
      rows.forEach(remember);
      return rows;
    },
    settle: async (settlements) => {
      await settle(
        settlements.map((settlement) => ({ ...settlement, readEvents: handedOut.get(settlement.seq) ?? null })),
      );
      for (const { seq } of settlements) handedOut.delete(seq);
    },
  };
}
