import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { receiveDelivery, type Recipient } from './receive-delivery.ts';
import type { BodyBudget } from './body.ts';
import { countUp, observe, type SourceFigures } from './figures.ts';
import type { ReceiverNote } from './messages.ts';
import { refused, type Outcome, type RefusalReason } from './outcome.ts';
import { decoyRecipient } from './recipient.ts';

/** A source as its address sees it. */
export interface Addressee {
  recipient: Recipient;
  figures: SourceFigures;
}

interface WebhookParts {
  clock: Clock;
  budget: BodyBudget;
  addressees: ReadonlyMap<string, Addressee>;
  /** Requests for sources that do not exist, by reason. */
  unclaimed: Record<string, number>;
  note: (note: ReceiverNote) => void;
}

/** Why an inbox has not taken a delivery, by the code of its error. */
const NOT_TAKEN: Readonly<Record<string, RefusalReason>> = { inbox_overloaded: 'overloaded', inbox_full: 'inbox_full' };

/** Receives deliveries by the name in their address, and counts what came of them. Never throws. */
export function webhookReceiver({ clock, budget, addressees, unclaimed, note }: WebhookParts) {
  const [example] = addressees.values();
  const nobody = example === undefined ? null : decoyRecipient(example.recipient);

  /** A delivery that was proved, or may have been, and could not be kept: the sender has to repeat it. */
  function outcomeOf(error: unknown, source: string): Outcome {
    if (error instanceof SyncError) return refused(NOT_TAKEN[error.code] ?? 'not_stored');
    note({ level: 'error', event: 'delivery_failed', source, error: messageOf(error) });
    return refused('failed');
  }

  return async (request: IncomingMessage, name: string, invite: () => void): Promise<Outcome> => {
    const began = clock.monotonic();
    const addressee = addressees.get(name);
    const recipient = addressee?.recipient ?? nobody;
    let outcome = refused('unknown_source');
    if (recipient !== null) {
      const received = receiveDelivery(request, recipient, { clock, budget, invite });
      outcome = await received.catch((error: unknown) => outcomeOf(error, name));
    }
    if (addressee !== undefined) tally(addressee.figures, outcome, (clock.monotonic() - began) / 1_000);
    else outcome = forNobody(outcome, unclaimed);
    return outcome;
  };
}

/** What a source's own refusal is for one that does not exist: only that it is not there. */
function forNobody(outcome: Outcome, unclaimed: Record<string, number>): Outcome {
  if (outcome.kind === 'gone') return outcome;
  countUp(unclaimed, 'unknown_source');
  return refused('unknown_source');
}

/** How an outcome is counted, by its kind. */
const TALLIES: {
  readonly [K in Outcome['kind']]: (
    figures: SourceFigures,
    outcome: Extract<Outcome, { kind: K }>,
    seconds: number,
  ) => void;
} = {
  stored: (figures, { effect }, seconds) => {
    if (effect === 'repeat') figures.repeats += 1;
    else figures.stored += 1;
    observe(figures.acks, seconds);
  },
  challenge: (figures) => void (figures.challenges += 1),
  refused: (figures, { reason }) => countUp(figures.refused, reason),
  gone: (figures) => countUp(figures.refused, 'gone'),
};

function tally(figures: SourceFigures, outcome: Outcome, seconds: number): void {
  figures.received += 1;
  count(outcome.kind, outcome);

  function count<K extends Outcome['kind']>(kind: K, one: Extract<Outcome, { kind: K }>): void {
    TALLIES[kind](figures, one, seconds);
  }
}
