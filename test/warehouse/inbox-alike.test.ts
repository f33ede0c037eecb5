import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { DeliveryRow, Inbox, InboxEffect, InboxEntry } from '../../src/warehouse/inbox.ts';
import { inboxAddress, openInbox } from '../../src/warehouse/databases.ts';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { freshSeed, randomFrom, type Random } from '../support/random.ts';
import { delivery, moment, settlement } from './deliveries.ts';

const seed = freshSeed();
const ROUNDS = 80;
/** Ids of senders, under which more than one body may come, and ids that are the digests of their bodies. */
const SENT = ['a', 'b', 'c', 'd'];
const HASHED = ['e', 'f', 'g', 'h'];
const BODIES = ['', '{"n":1}', '{"n":2}'];
const STATES = ['waiting', 'done', 'ignored', 'dead'] as const;

/** An entry in words that both databases share: a settlement names the delivery, whose number may differ. */
type Draft = { deliver: InboxEntry } | { settle: string; readEvents: number | null; to: ReturnType<typeof settlement> };

describe.skipIf(POSTGRES.missing !== null)('both kinds of inbox', () => {
  it(`do the same with whatever is written, in whatever order, in one go or one by one (SEED=${seed})`, async () => {
    const random = randomFrom(seed);
    const sqlite = await openInbox(inboxAddress(await SQLITE.address()), systemClock);
    const postgres = await openInbox(inboxAddress(await POSTGRES.address()), systemClock);
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        const drafts = Array.from({ length: random.whole(1, 12) }, () => draft(random, round));
        const oneByOne = random.chance(0.2);
        const effects = await Promise.all([sqlite, postgres].map((inbox) => written(inbox, drafts, oneByOne)));
        expect(effects[1], `round ${round}`).toEqual(effects[0]);
        expect(await contents(postgres), `round ${round}`).toEqual(await contents(sqlite));
      }
    } finally {
      await Promise.all([sqlite.close(), postgres.close()]);
    }
  });
});

function draft(random: Random, round: number): Draft {
  const is_id_sent = random.chance(0.5);
  const name = random.pick(is_id_sent ? SENT : HASHED);
  const id = random.chance(0.3) ? `${name}${round}` : name;
  if (random.chance(0.6)) {
    const body = Buffer.from(is_id_sent ? random.pick(BODIES) : [0xff, 0, ...Buffer.from(id)]);
    const received_at = moment(random.whole(0, 59));
    return { deliver: delivery(id, { body, received_at, is_id_sent, headers: `{"n":${random.whole(0, 99)}}` }) };
  }
  const due_at = random.chance(0.5) ? moment(random.whole(0, 59)) : null;
  const to = settlement(0, random.pick(STATES), {
    due_at,
    attempts: random.whole(1, 9),
    reason: random.pick(['é', null]),
  });
  return { settle: id, readEvents: random.pick([null, 1, 2, 3]), to };
}

async function written(inbox: Inbox, drafts: readonly Draft[], oneByOne: boolean): Promise<InboxEffect[]> {
  const entries: InboxEntry[] = [];
  for (const one of drafts) {
    // One that is not there yet: settling it comes to nothing.
    const seq = 'settle' in one ? ((await inbox.get(one.settle))?.seq ?? 1_000_000) : 0;
    entries.push('settle' in one ? { settlement: { ...one.to, seq, readEvents: one.readEvents } } : one.deliver);
  }
  const effects: InboxEffect[] = [];
  for (const group of oneByOne ? entries.map((entry) => [entry]) : [entries])
    effects.push(...(await inbox.write(group)));
  return effects;
}

/**
 * All deliveries in the order of their numbers, without those; what stands beside another one of its id comes last, in
 * the order of the ids: on Postgres it is inserted after the others of its transaction.
 */
async function contents(inbox: Inbox): Promise<DeliveryRow[]> {
  const rows = (await inbox.list({ limit: 9_999 })).map((row) => Object.assign(row, { seq: 0 }));
  const apart = rows.filter(({ differs_from }) => differs_from !== null);
  const byId = apart.toSorted((one, other) => (one.delivery_id < other.delivery_id ? -1 : 1));
  return [...rows.filter(({ differs_from }) => differs_from === null), ...byId];
}
