import type { CompiledQuery } from 'kysely';
import { saveSourceTexts } from '../state/versions.ts';
import type { KeyedRecord } from './key-records.ts';
import type { LoadContext } from './load-context.ts';

/**
 * The statements that keep what the service sent of records with hidden fields beside their versions, where the profile
 * wants it; they run behind those that write the versions.
 */
export function sourceTexts(
  { warehouse, owned, profile }: LoadContext,
  written: readonly KeyedRecord[],
): CompiledQuery[] {
  if (profile.source_text !== 'kept' || profile.history === 'none') return [];
  const texts = written.flatMap(({ key, asSent }) =>
    asSent === undefined ? [] : [{ id: key, text: asSent.toString() }],
  );
  return saveSourceTexts(warehouse.own, owned.resource, texts);
}
