import type { Kysely } from 'kysely';
import { messageOf, type SyncError } from '../../model/errors.ts';
import { countSuspects, readSuspects } from '../../state/suspects.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import type { Warning } from '../warnings.ts';
import type { NewCredential } from './sweep.ts';

/** Told in every run until a person has decided. */
export async function heldDeletes(own: Kysely<OwnTables>, resource: string): Promise<Warning[]> {
  const held = await countSuspects(own, resource, 'held');
  if (held === 0) return [];
  const [first] = await readSuspects(own, resource, ['held'], 1);
  const why = first?.detail ?? 'a person must decide';
  const message = `${held} ${held === 1 ? 'delete is' : 'deletes are'} held, ${held === 1 ? 'its row stays' : 'their rows stay'} live: ${why}`;
  const hint = `look at them with: content-sync deletes list ${resource}; then \`deletes confirm\` or \`deletes discard\``;
  return [{ code: 'deletes_held', message, hint }];
}

export function emptyListing(live: number, resource: string): Warning {
  return {
    code: 'empty_listing',
    message: `the listing is empty, and ${live} rows stay live: an empty listing proves nothing`,
    hint: `check what the credential may see; if really all of it is gone: content-sync backfill ${resource} --restart`,
  };
}

export function unconfirmed(trouble: SyncError, scrub: (text: string) => string): Warning {
  return {
    code: 'deletes_unconfirmed',
    message: scrub(`records that may be gone could not be read alone: ${messageOf(trouble)}`),
    hint: scrub(trouble.hint ?? 'the next run tries again'),
  };
}

/** Told once, by the first whole walk under another credential. */
export function newCredential({ missing }: NewCredential, resource: string): Warning {
  return {
    code: 'credential_changed',
    message: `the credential is another one than before: ${underIt(missing)}`,
    hint:
      missing === 0
        ? 'nothing is to be done'
        : `see that the credential may read all of ${resource}; what is held: content-sync deletes list ${resource}`,
  };
}

function underIt(missing: number | null): string {
  if (missing === null) return 'records without a usable id keep it from being known what it does not list';
  if (missing === 0) return 'it lists all that was copied before';
  const rows = missing === 1 ? '1 row that was copied before is' : `${missing} rows that were copied before are`;
  return `${rows} not listed under it, and held until a person decides`;
}
