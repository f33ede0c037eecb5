import type { Page } from '../../extract/page.ts';
import { walk } from '../../extract/walk.ts';
import { newMeter } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { zoneAt } from '../../model/time-zone.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import { momentOf } from '../cursor/since.ts';
import type { CheckOptions } from './finding.ts';

/** A record as a test knows it. */
export interface Listed {
  key: string;
  /** Its time of change as the service writes it, and in epoch milliseconds (-Infinity where that cannot be read). */
  text: string;
  at: number;
}

/** The first page of a listing, as a test compares it. */
export interface FirstPage {
  records: Listed[];
  total: number | null;
  /** True where no page follows. */
  isWhole: boolean;
}

/**
 * Asks for the first page of the listing with these parameters; null where the service refuses the request. Throws what
 * walking throws.
 */
export async function firstPage(
  { client, profile, listing, signal, clock }: CheckOptions,
  extraQuery: Readonly<Record<string, string>>,
): Promise<FirstPage | null> {
  const lane = 'incremental';
  const asked = { client, resource: profile, listing, extraQuery, lane, meter: newMeter(), signal, runAhead: 0, clock };
  try {
    for await (const page of walk({ ...asked, lane })) return pageAsListed(page, profile);
  } catch (error) {
    if (error instanceof SyncError && error.code === 'bad_request') return null;
    throw error;
  }
  return { records: [], total: null, isWhole: true };
}

/** What a page has, by key and time. */
export function pageAsListed(
  { records, total, next }: Pick<Page, 'records' | 'total' | 'next'>,
  { id, updated, times }: CheckOptions['profile'],
): FirstPage {
  const zone = zoneAt(times, updated);
  const listed = records.map(({ value }) => {
    const found = recordKey(value, id);
    const time = updated === null ? null : fieldAt(value, updated);
    const text = typeof time === 'string' || typeof time === 'number' ? String(time) : '';
    return { key: 'key' in found ? found.key : '', text, at: momentOf(text, zone) };
  });
  return { records: listed, total, isWhole: next === null };
}
