import type { Inbox } from '../warehouse/inbox.ts';

/** A source's inbox while a receiver stores deliveries in it: what whoever works on the deliveries may do with it. */
export interface ReceivedInbox extends Pick<Inbox, 'waiting' | 'settle' | 'figures' | 'nameState'> {
  /** Opens the file that has the inbox's name now. Must not be called while a drain uses the inbox. */
  reopen(): Promise<void>;
  /** While an inbox is held, deliveries for it are refused with 503. */
  hold(isHeld: boolean): void;
}
