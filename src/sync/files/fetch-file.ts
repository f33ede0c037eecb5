import { hash } from 'node:crypto';
import type { FilesSettings, KeptFile } from '../../config/file-stores.ts';
import type { StoreAddress } from '../../config/profile/file-fields.ts';
import type { FileObjectRow, FileRow } from '../../database/own-tables.ts';
import { placeText } from '../../database/state/files.ts';
import type { RequestMeter } from '../../http/client.ts';
import type { Downloader } from '../../http/download/create-downloader.ts';
import type { Downloaded } from '../../http/download/download-request.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { readItem } from '../../pagination/read-item.ts';
import type { SourceContext } from '../resource-context.ts';
import { type FileAddress, fileAddresses, isBelow, withoutSignature } from './file-address.ts';
import type { FileContent, FileOutcome, Validators } from './file-changes.ts';

/** What the lane of files needs of a source. */
export interface FilesContext extends Pick<
  SourceContext,
  'client' | 'profile' | 'listing' | 'warehouse' | 'clock' | 'scrub'
> {
  settings: FilesSettings;
  downloader: Downloader;
  /** Opened with its first use. Throws `ConfigError`, and `SyncError` while it cannot be reached. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
}

/** A file that is due, and what is known of it. */
export interface DueFile {
  row: FileRow;
  file: KeptFile;
  address: FileAddress;
  /** The content that is here, and the one that the record declares, where the store has them; null otherwise. */
  here: FileObjectRow | null;
  declared: FileObjectRow | null;
}

interface Fetch extends FilesContext {
  meter: RequestMeter;
  signal: AbortSignal;
}

/**
 * Fetches one file to its store, unless it is there. Throws what stops all of them: `SyncError` with recovery `stop`,
 * `file_store_full`, and the signal's reason.
 */
export async function fetchFile(context: Fetch, due: DueFile): Promise<FileOutcome> {
  const { address, declared } = due;
  const url = context.scrub(address.url);
  if (address.fault !== null) return { is: 'refused', url, code: 'file_address', reason: address.fault };
  // The same bytes are in the store already.
  if (declared !== null) return { is: 'unchanged', url, content: contentOf(declared, validatorsOf(due)) };
  try {
    return await downloaded(context, due);
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof DeferredError) {
      return { is: 'put off', until: error.until, code: error.code, reason: context.scrub(error.message) };
    }
    if (!(error instanceof SyncError) || error.recovery === 'stop' || error.code === 'file_store_full') throw error;
    return { is: 'failed', code: error.code, reason: context.scrub(messageOf(error)) };
  }
}

async function downloaded(context: Fetch, asked: DueFile): Promise<FileOutcome> {
  const store = await context.storeAt(asked.file.store);
  const due = await inNewStore(store, asked);
  const answer = await ask(context, store, due);
  if (answer.kind !== 'expired') return settled(context, store, due, answer);
  const address = await addressAnew(context, due);
  if (address === null || address.fault !== null || address.url === due.address.url) {
    return settled(context, store, due, answer);
  }
  const again = { ...due, address };
  return settled(context, store, again, await ask(context, store, again));
}

/** What stood in another store may have been carried over to this one. */
async function inNewStore(store: ObjectStore, due: DueFile): Promise<DueFile> {
  const { row, here } = due;
  if (here !== null || row.sha256 === null || row.store === store.name) return due;
  const found = await store.head(row.sha256);
  if (found === null || found.bytes !== row.bytes || row.type === null) return due;
  const { sha256, bytes, type, width, height } = row;
  const object = { store: store.name, sha256, bytes, type, width, height, stored_at: '', checked_at: null, missing: 0 };
  return { ...due, here: object };
}

/**
 * The present address of the record, which may be signed again. Null if the record cannot be fetched individually or has
 * no address: then the next scan decides.
 */
async function addressAnew(context: Fetch, { row }: DueFile): Promise<FileAddress | null> {
  const { client, listing, meter, signal } = context;
  const profile = context.profile.resources[row.resource];
  if (profile === undefined || profile.item === null) return null;
  const asked = readItem({ client, listing, profile, meter, signal }, row.record_id, 'bulk');
  const reading = await asked.catch((error: unknown) => {
    // An error of the path of single records is not an error of the file.
    if (error instanceof SyncError && error.code.startsWith('item_')) return null;
    throw error;
  });
  if (reading?.isThere !== true) return null;
  const files = context.settings.kept[row.resource] ?? [];
  const found = fileAddresses({ profile, listing }, files, row.record_id, reading.record.value);
  return found.find(({ field, position }) => field === row.field && position === row.position) ?? null;
}

function ask({ downloader, meter, signal, listing }: Fetch, store: ObjectStore, due: DueFile): Promise<Downloaded> {
  const { file, address, row } = due;
  const url = new URL(address.url);
  const { etag, last_modified } = validatorsOf(due);
  return downloader.download({
    url,
    isOwn: (asked) => isBelow(asked, listing.baseUrl),
    spool: store.spool,
    // The same for the same file, so that what a kill left is overwritten.
    name: hash('sha256', JSON.stringify([row.resource, placeText(row)]), 'hex'),
    maxBytes: file.max_bytes,
    maxPixels: file.max_pixels,
    types: file.types,
    declared: address.declared,
    etag,
    lastModified: last_modified,
    meter,
    signal,
  });
}

/** Of the content that is here, if this address may still serve it: a signature in the query makes it no other file. */
function validatorsOf({ row, address, here }: DueFile): Validators {
  const isSame = here !== null && withoutSignature(row.url) === withoutSignature(address.url);
  return isSame ? { etag: row.etag, last_modified: row.last_modified } : { etag: null, last_modified: null };
}

async function settled(
  { scrub }: Fetch,
  store: ObjectStore,
  { address, row, here }: DueFile,
  answer: Downloaded,
): Promise<FileOutcome> {
  const url = scrub(address.url);
  if (answer.kind === 'expired') return { is: 'failed', code: 'file_expired', reason: scrub(answer.reason) };
  if (answer.kind === 'gone') return { is: 'gone', url };
  if (answer.kind === 'unchanged') {
    if (here === null) return { is: 'failed', code: 'file_unasked', reason: UNASKED };
    return { is: 'unchanged', url, content: contentOf(here, row) };
  }
  if (answer.kind === 'refused') {
    const { code } = answer;
    const reason = scrub(answer.reason);
    // A record and its file may change one after the other: what differs now may be right a minute later.
    return code === 'file_differs' ? { is: 'failed', code, reason } : { is: 'refused', url, code, reason };
  }
  const { path, sha256, bytes, type } = answer;
  await store.put({ path, sha256, bytes, type });
  const content = contentOf(
    { ...answer, store: store.name },
    { etag: answer.etag, last_modified: answer.lastModified },
  );
  return { is: 'here', url, content, fetched: bytes };
}

const UNASKED = 'the service says that it has not changed, and was not asked that';

function contentOf(
  { store, sha256, bytes, type, width, height }: Omit<FileContent, keyof Validators>,
  { etag, last_modified }: Validators,
): FileContent {
  return { store, sha256, bytes, type, width, height, etag, last_modified };
}
