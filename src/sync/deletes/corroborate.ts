import { parseInstant } from '../../shape/columns/timestamps.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Cell } from '../../model/table.ts';
import { askListing } from '../item/ask-listing.ts';
import type { DeleteContext } from '../resource-context.ts';

/** A record that the service no longer has. */
export interface Gone {
  key: string;
  /** When it was asked for; local epoch milliseconds. */
  confirmedAt: number;
}

/**
 * What speaks for a delete besides the 404 or 410 of the record read alone. `walked`: a whole walk has not met it.
 * `told`: an event says that it is gone. `untold`: nothing else.
 */
export type Witness = 'walked' | 'told' | 'untold';

/** A record that cannot be read alone and that the listing shows all the same. */
export interface ListedRecord {
  key: string;
  record: SourceRecord;
  requestedAt: number;
}

/** Records that are not there alone, sorted by what the listing says of them. */
export interface Heard {
  /** Gone by the listing's word, or by that of an event where the listing is too long to ask. */
  gone: Gone[];
  listed: ListedRecord[];
  /** The listing is too long to ask and nothing else speaks for it: a whole walk has to tell. */
  waiting: Gone[];
}

/**
 * What is listed is not deleted: asks the listing about records that are not there when they are read alone.
 *
 * | read alone | the listing                | an event says gone | the row                                          |
 * |------------|----------------------------|--------------------|--------------------------------------------------|
 * | 404        | a whole walk did not meet it | either           | deleted                                          |
 * | 404        | asked now: not listed      | either             | deleted                                          |
 * | 404        | asked now: listed          | either             | stays, as it is listed                           |
 * | 404        | too long to ask            | yes                | deleted, if others are there under the same path |
 * | 404        | too long to ask            | no                 | stays until a whole walk tells                   |
 *
 * In all rows that end in `deleted` another record must be there under the same path (`confirm-path.ts`), and the guard
 * has to let them go. Throws what keeps the service from answering.
 */
export async function hearListing(
  context: DeleteContext,
  gone: readonly Gone[],
  witness: Witness,
  lane: Lane,
): Promise<Heard> {
  if (witness === 'walked') return { gone: [...gone], listed: [], waiting: [] };
  const live = await liveRows(context, gone);
  const heard: Heard = { gone: [], listed: [], waiting: [] };
  for (const each of gone) {
    const row = live.get(each.key);
    // Of what is no live row, or was written since, there is nothing to delete.
    const word =
      row === undefined ? null : await askListing(context, { ...each, ...row, after: each.confirmedAt }, lane);
    if (word?.is === 'listed') heard.listed.push({ key: each.key, ...word });
    else if (word?.is === 'unknown' && witness === 'untold') heard.waiting.push(each);
    else heard.gone.push(each);
  }
  return heard;
}

async function liveRows(
  { warehouse, owned, profile, clock }: DeleteContext,
  gone: readonly Gone[],
): Promise<Map<string, { updated: string | null }>> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Map();
  const column = table.columns.find(({ path }) => path.join('.') === profile.updated);
  const stored = await warehouse.stored(
    table,
    gone.map(({ key }) => key),
    column?.name ?? null,
  );
  const askedAt = new Map(gone.map(({ key, confirmedAt }) => [key, timestampText(confirmedAt)]));
  const now = timestampText(clock.now());
  const live = [...stored].filter(
    ([key, { deletedAt, syncedAt }]) => deletedAt === null && (syncedAt <= (askedAt.get(key) ?? '') || syncedAt > now),
  );
  return new Map(live.map(([key, { updated }]) => [key, { updated: asSent(updated) }]));
}

/** The time of a row as a service may write it. */
function asSent(cell: Cell): string | null {
  if (typeof cell === 'number') return String(cell);
  const instant = typeof cell === 'string' ? parseInstant(cell) : null;
  if (instant === null) return null;
  const text = new Date(instant.epochMs).toISOString();
  return instant.epochMs % 1_000 === 0 ? text.replace('.000', '') : text;
}
