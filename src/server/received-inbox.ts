import type { SourceSettings } from '../config/settings.ts';
import type { Inbox } from '../database/inbox.ts';

/** The inbox of a source that a receiver stores deliveries in, as the keeper of the source sees it. */
export type ReceivedInbox = Pick<Inbox, 'waiting' | 'settle' | 'figures' | 'list'>;

/** The receiver of webhooks, as those see it who keep its sources. */
export interface Receiving {
  /** The inbox of a source that receives webhooks. */
  inbox(source: string): ReceivedInbox;
  /** Answers deliveries by these settings from now on, without a gap; its inbox may be another one. */
  receive(source: SourceSettings): Promise<void>;
  /** Answers no delivery for the source any more, and closes its inbox. */
  forget(source: string): Promise<void>;
}
