import type { Page } from '../../extract/page.ts';
import { SyncError } from '../../model/errors.ts';
import { updatedTime } from '../../shape/columns/updated-time.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { RequestContext } from '../resource-context.ts';
import { firstPage, type ExtraQuery } from '../listing-walk.ts';

/** A record as a test knows it. */
export interface Listed {
  key: string;
  /** Its time of change as the service writes it, and in epoch milliseconds (-Infinity if that cannot be read). */
  text: string;
  at: number;
}

/** The first page of a listing, as a test compares it. */
export interface FirstPage {
  records: Listed[];
  total: number | null;
  /** True if no page follows. */
  isWhole: boolean;
}

/**
 * Asks for the first page of the listing with these parameters; null if the service refuses the request. Throws what
 * walking throws.
 */
export async function askFirstPage(context: RequestContext, extraQuery: ExtraQuery): Promise<FirstPage | null> {
  try {
    const page = await firstPage(context, 'incremental', extraQuery);
    return page === null ? { records: [], total: null, isWhole: true } : pageAsListed(page, context.profile);
  } catch (error) {
    if (error instanceof SyncError && error.code === 'bad_request') return null;
    throw error;
  }
}

/** A page's records by key and time. */
export function pageAsListed(
  { records, total, next }: Pick<Page, 'records' | 'total' | 'next'>,
  profile: ResourceProfile,
): FirstPage {
  const listed = records.map(({ value }) => {
    const found = recordKey(value, profile.id);
    const { text, at } = updatedTime(value, profile) ?? { text: '', at: -Infinity };
    return { key: 'key' in found ? found.key : '', text, at };
  });
  return { records: listed, total, isWhole: next === null };
}
