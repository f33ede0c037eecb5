import { SyncError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import { asRecord } from '../shape/records/as-record.ts';
import { mergeParts } from '../shape/records/merge-parts.ts';
import { recordKey } from '../shape/records/record-key.ts';
import { pageKeys } from './guards/page-keys.ts';
import type { Page } from './page.ts';
import type { ReadableResource } from './requests/read-page.ts';

/** Pages that are held until their records are whole: beyond them the profile is wrong, not the record long. */
const MOST_HELD = 1_000;

/**
 * The pages of a walk whose records come in parts, those that make whole records together as one page. Where it goes on
 * after an interruption, a record begins. Throws `SyncError` (`parts_unfinished`) if the listing ends in the middle of a
 * record, or nothing shows for very long that one is whole.
 */
export async function* mergedPages(
  pages: AsyncIterable<Page>,
  resource: ReadableResource,
  pagesBefore: number,
): AsyncGenerator<Page, void, undefined> {
  const complete = resource.parts?.complete ?? null;
  let number = pagesBefore;
  let held: Page[] = [];
  const merged = (): Page => {
    const page = mergedPage(held, resource, (number += 1));
    held = [];
    return page;
  };
  for await (const page of pages) {
    if (complete === null && held.length > 0 && !goesOn(held, page, resource)) yield merged();
    held.push(page);
    const isWhole = complete === null ? page.end !== null : page.completesParts;
    if (isWhole) yield merged();
    else if (page.end !== null || held.length >= MOST_HELD) throw unfinished(page, complete);
  }
}

/** True if a record of the pages has a further part on this one. */
function goesOn(held: readonly Page[], { records }: Page, { id }: ReadableResource): boolean {
  const keys = new Set(held.flatMap((page) => page.records.map((record) => keyIn(record, id))));
  keys.delete(null);
  return records.some((record) => keys.has(keyIn(record, id)));
}

function keyIn(record: SourceRecord, id: ReadableResource['id']): string | null {
  const found = recordKey(record.value, id);
  return 'key' in found ? found.key : null;
}

function mergedPage(held: readonly Page[], resource: ReadableResource, number: number): Page {
  const [first, last] = [held[0], held.at(-1)];
  if (first === undefined || last === undefined) throw new Error('a merged page is made of pages');
  const records = mergedRecords(
    held.flatMap((page) => page.records),
    resource,
  );
  const { position, requestedAt, serverDate } = first;
  const release = (): void => {
    for (const page of held) page.release();
  };
  const discard = (): void => {
    for (const page of held) page.discard();
  };
  const keys = pageKeys(records, resource.id);
  return { ...last, number, position, requestedAt, serverDate, records, keys, release, discard, completesParts: true };
}

function mergedRecords(parts: readonly SourceRecord[], resource: ReadableResource): SourceRecord[] {
  const byKey = new Map<string | symbol, [SourceRecord, ...SourceRecord[]]>();
  for (const part of parts) {
    // One without a usable key is a record of its own.
    const key = keyIn(part, resource.id) ?? Symbol('no key');
    const before = byKey.get(key);
    if (before === undefined) byKey.set(key, [part]);
    else before.push(part);
  }
  return Array.from(byKey.values(), (each) => (each.length === 1 ? each[0] : asRecord(mergeParts(each), resource)));
}

function unfinished({ position }: Page, complete: string | null): SyncError {
  const message = `${complete === null ? 'nothing' : `no ${complete}`} has shown by ${position} that the records are whole which came in parts`;
  return new SyncError('parts_unfinished', message, {
    recovery: 'stop',
    hint: 'Set parts.complete in the profile to what a page has that completes its records, or to null if a new record shows it.',
  });
}
