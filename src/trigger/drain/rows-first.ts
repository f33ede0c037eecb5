import type { InboxPort } from '../../warehouse/inbox.ts';

/**
 * An inbox in which a delivery is settled only when the rows that came of it would survive a power cut: the inbox is
 * synced with every commit, the warehouse is not, and a delivery that is done is never looked at again. It costs one
 * sync for all settlements of one moment.
 */
export function rowsFirst(inbox: InboxPort, keepRows: () => Promise<void>): InboxPort {
  return {
    waiting: (...asked) => inbox.waiting(...asked),
    settle: async (settlements) => {
      await keepRows();
      await inbox.settle(settlements);
    },
  };
}
