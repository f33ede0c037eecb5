import type { CompiledQuery, Kysely } from 'kysely';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';

/** Something that a channel was told; times in epoch milliseconds. */
export interface ToldAlert {
  channel: string;
  /** The kind, and the resource if it is about one. */
  alert: string;
  /** As it was told. */
  what: string;
  since: number;
  told_at: number;
  /** When it was first found to be over; null while it goes on. */
  gone_at: number | null;
  /** When that was told; null until then. */
  over_at: number | null;
  /** How often it has come back within a day. */
  returns: number;
}

/** All that the channels were told about a source. */
export async function readTold(own: Kysely<OwnTables>): Promise<ToldAlert[]> {
  const rows = await own.selectFrom('_sync_alerts').selectAll().execute();
  return rows.map(({ channel, alert, what, since, told_at, gone_at, over_at, returns }) => ({
    channel,
    alert,
    what,
    since: timestampMs(since),
    told_at: timestampMs(told_at),
    gone_at: gone_at === null ? null : timestampMs(gone_at),
    over_at: over_at === null ? null : timestampMs(over_at),
    returns,
  }));
}

/** The statement that remembers it. */
export function keepTold(own: Kysely<OwnTables>, { channel, alert, ...told }: ToldAlert): CompiledQuery {
  const values = {
    ...told,
    since: timestampText(told.since),
    told_at: timestampText(told.told_at),
    gone_at: told.gone_at === null ? null : timestampText(told.gone_at),
    over_at: told.over_at === null ? null : timestampText(told.over_at),
  };
  return own
    .insertInto('_sync_alerts')
    .values({ channel, alert, ...values })
    .onConflict((conflict) => conflict.columns(['channel', 'alert']).doUpdateSet(values))
    .compile();
}

/** The statement that forgets it. */
export function forgetTold(
  own: Kysely<OwnTables>,
  { channel, alert }: Pick<ToldAlert, 'channel' | 'alert'>,
): CompiledQuery {
  return own.deleteFrom('_sync_alerts').where('channel', '=', channel).where('alert', '=', alert).compile();
}
