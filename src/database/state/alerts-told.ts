import type { CompiledQuery, Kysely } from 'kysely';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables } from '../own-tables.ts';

/** Something that a channel has reported of a source; times in epoch milliseconds. */
export interface ToldAlert {
  channel: string;
  /** Not stored: the row is in the warehouse of this source. */
  source: string;
  /** The kind, and the resource if it is about one. */
  alert: string;
  /** As it was reported. */
  what: string;
  since: number;
  told_at: number;
  /** When it was first found to have ended; null while it lasts. */
  gone_at: number | null;
  /** When its end was reported; null until then. */
  over_at: number | null;
  /** How often it has come back within a day. */
  returns: number;
}

/** All that the channels have reported of a source. */
export async function readTold(own: Kysely<OwnTables>, source: string): Promise<ToldAlert[]> {
  const rows = await own.selectFrom('_sync_alerts').selectAll().execute();
  return rows.map(({ channel, alert, what, since, told_at, gone_at, over_at, returns }) => ({
    channel,
    source,
    alert,
    what,
    returns,
    since: timestampMs(since),
    told_at: timestampMs(told_at),
    gone_at: gone_at === null ? null : timestampMs(gone_at),
    over_at: over_at === null ? null : timestampMs(over_at),
  }));
}

/** The statement that stores a row. */
export function keepTold(
  own: Kysely<OwnTables>,
  { source: _source, channel, alert, ...told }: ToldAlert,
): CompiledQuery {
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
