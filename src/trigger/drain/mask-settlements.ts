import { scrubOwn } from '../../observe/scrub/scrub.ts';
import type { InboxPort } from '../../warehouse/inbox.ts';

/** An inbox that stores no secret with what became of a delivery: errors quote what the service answered. */
export function maskSettlements(inbox: InboxPort, secrets: readonly string[]): InboxPort {
  const clean = (text: string | null): string | null => (text === null ? null : scrubOwn(text, secrets));
  return {
    waiting: (...asked) => inbox.waiting(...asked),
    settle: (settlements) =>
      inbox.settle(
        settlements.map(({ kind, record_id, reason, ...settlement }) => ({
          ...settlement,
          kind: clean(kind),
          record_id: clean(record_id),
          reason: clean(reason),
        })),
      ),
  };
}
