import { isOtherAnswer } from '../../pagination/read-item.ts';
import { messageOf, type SyncError } from '../../model/errors.ts';
import { readSuspects } from '../../database/state/suspects.ts';
import { durationText } from '../../observe/figures.ts';
import type { Warning } from '../warnings.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { ConfirmedDeletes } from './confirm-deletes.ts';
import { listingDelayMs, type NewCredential } from './sweep.ts';

/** Reported in every run until a person has decided; `held` deletes are. */
export async function heldDeletes(
  { warehouse, owned: { resource } }: ResourceContext,
  held: number,
): Promise<Warning[]> {
  if (held === 0) return [];
  const [first] = await readSuspects(warehouse.own, resource, ['held'], 1);
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

/** Suspects that are open when a run ends: the copy may differ from the service. */
export async function unconfirmedDeletes(
  context: ResourceContext,
  { trouble, isNone }: Pick<ConfirmedDeletes, 'trouble' | 'isNone'>,
): Promise<Warning[]> {
  if (isNone) return [];
  const { warehouse, owned, scrub } = context;
  const open = await readSuspects(warehouse.own, owned.resource, ['open']);
  const older = open.filter(({ reason }) => reason === 'older').length;
  const missed = open.filter(({ reason, sweeps }) => reason !== 'older' && sweeps > 0).length;
  const young = open.filter(({ reason, sweeps }) => reason === 'missing' && sweeps === 0).length;
  const isDoubted = missed + young > 0 || (trouble !== null && open.length > older);
  return [
    ...(isDoubted ? [unconfirmed({ missed, young, delayMs: listingDelayMs(context) }, trouble, scrub)] : []),
    ...(older > 0 ? [olderListed(older, trouble, scrub)] : []),
  ];
}

function unconfirmed(
  { missed, young, delayMs }: { missed: number; young: number; delayMs: number },
  trouble: SyncError | null,
  scrub: (text: string) => string,
): Warning {
  const parts = [
    ...(missed > 0 ? [`${countOf(missed, 'row')} that a whole walk did not meet`] : []),
    ...(young > 0 ? [`${countOf(young, 'row')} not met and younger than ${durationText(delayMs / 1_000)}`] : []),
  ];
  const what = parts.length === 0 ? 'records of which an event says that they are gone' : parts.join(', and ');
  const failed = trouble === null ? '' : `: they could not be read alone: ${messageOf(trouble)}`;
  const isOther = trouble !== null && isOtherAnswer(trouble);
  const hint =
    young > missed
      ? 'the next whole walk after that time decides; deletes.settle in the settings is how late a listing may be'
      : 'the next whole walk decides; look at them with: content-sync deletes list';
  return {
    code: 'deletes_unconfirmed',
    message: scrub(`still live and not confirmed to be gone: ${what}${failed}`),
    hint: scrub(
      isOther
        ? `${hint}; to decide sooner, name such responses under \`gone\` in the profile`
        : (trouble?.hint ?? hint),
    ),
  };
}

function olderListed(older: number, trouble: SyncError | null, scrub: (text: string) => string): Warning {
  const failed = trouble === null ? '' : `: ${messageOf(trouble)}`;
  return {
    code: 'older_listed',
    message: scrub(`the listing shows ${countOf(older, 'record')} in an older state than the row${failed}`),
    hint: 'a listing may lag behind: the record read alone decides, or two whole walks that show the same state, further apart than it may lag (deletes.settle)',
  };
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** Reported once, by the first whole walk under another credential. */
export function newCredential({ missing }: NewCredential, resource: string): Warning {
  return {
    code: missing === 0 ? 'credential_renewed' : 'credential_changed',
    message: `the credential or the version of the API is another one than before: ${underIt(missing)}`,
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
