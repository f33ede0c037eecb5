// Downloads one file of a record into its store, unless the store has its content already (`fetchFile`).
import { hash } from 'node:crypto';
import type { FilesSettings, KeptFile, StoreAddress } from '../../config/profile/file-fields.ts';
import type { FileObjectRow, FileRow } from '../../database/own-tables.ts';
import { fileKeyText } from '../../database/state/files.ts';
import type { RequestMeter } from '../../http/client.ts';
import type { Downloader } from '../../http/download/create-downloader.ts';
import type { Downloaded } from '../../http/download/download-request.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { readItem } from '../../pagination/read-item.ts';
import type { SourceContext } from '../resource-context.ts';
import { type FileAddress, fileAddresses, isBelow, withoutSignature } from './file-address.ts';
import type { FileContent, FileOutcome, Validators } from './file-changes.ts';

/** The dependencies for fetching the files of a source. */
export interface FilesContext extends Pick<
  SourceContext,
  'client' | 'profile' | 'listing' | 'warehouse' | 'clock' | 'scrub'
> {
  settings: FilesSettings;
  downloader: Downloader;
  /** Opened with its first use. Throws `ConfigError`, and `SyncError` while it cannot be reached. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
}

export interface DueFile {
  row: FileRow;
  file: KeptFile;
  address: FileAddress;
  /** The current content, and the one that the record declares; null if the store does not have it. */
  current: FileObjectRow | null;
  declared: FileObjectRow | null;
}

interface Fetch extends FilesContext {
  meter: RequestMeter;
  signal: AbortSignal;
}

/**
 * Fetches one file to its store, unless its content is there. Throws what stops all files: `SyncError` with recovery
 * `stop`, `file_store_full`, and the signal's reason.
 */
export async function fetchFile(context: Fetch, due: DueFile): Promise<FileOutcome> {
  const { address, declared } = due;
  const url = context.scrub(address.url);
  if (address.fault !== null) return { is: 'refused', url, code: 'file_address', reason: address.fault };
  if (declared !== null) return { is: 'unchanged', url, content: contentOf(declared, validatorsFor(due)) };
  try {
    return await download(context, due);
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof DeferredError) {
      return { is: 'deferred', until: error.until, code: error.code, reason: context.scrub(error.message) };
    }
    if (!(error instanceof SyncError) || error.recovery === 'stop' || error.code === 'file_store_full') throw error;
    return { is: 'failed', code: error.code, reason: context.scrub(messageOf(error)) };
  }
}

/** Downloads a file, and once more with a new address of its record if a signed one has expired. */
async function download(context: Fetch, due: DueFile): Promise<FileOutcome> {
  const store = await context.storeAt(due.file.store);
  const known = { ...due, current: due.current ?? (await findMoved(store, due)) };
  const first = await requestFile(context, store, known);
  const address = first.kind === 'expired' ? await readAddress(context, known) : null;
  if (address === null || address.fault !== null || address.url === due.address.url) {
    return storeResult(context, store, known, first);
  }
  const renewed = { ...known, address };
  return storeResult(context, store, renewed, await requestFile(context, store, renewed));
}

/** The content that an operator has moved from the former store to this one; null if there is none. */
async function findMoved(store: ObjectStore, { row }: DueFile): Promise<FileObjectRow | null> {
  const { sha256, bytes, type, width, height } = row;
  if (sha256 === null || bytes === null || type === null || row.store === store.name) return null;
  if ((await store.head(sha256))?.bytes !== bytes) return null;
  return { store: store.name, sha256, bytes, type, width, height, stored_at: '', checked_at: null, missing: 0 };
}

/**
 * The present address of the file in its record, which may be signed again. Null if the record cannot be fetched
 * individually or has no address: then the next scan decides.
 */
async function readAddress(context: Fetch, { row }: DueFile): Promise<FileAddress | null> {
  const { client, listing, meter, signal } = context;
  const profile = context.profile.resources[row.resource];
  if (profile === undefined || profile.item === null) return null;
  const item = readItem({ client, listing, profile, meter, signal }, row.record_id, 'bulk');
  const reading = await item.catch((error: unknown) => {
    // An error of the path of single records is not an error of the file.
    if (error instanceof SyncError && error.code.startsWith('item_')) return null;
    throw error;
  });
  if (reading?.isThere !== true) return null;
  const files = context.settings.kept[row.resource] ?? [];
  const found = fileAddresses({ profile, listing }, files, row.record_id, reading.record.value);
  return found.find(({ field, position }) => field === row.field && position === row.position) ?? null;
}

function requestFile(
  { downloader, meter, signal, listing }: Fetch,
  store: ObjectStore,
  due: DueFile,
): Promise<Downloaded> {
  const { file, address, row } = due;
  const { etag, last_modified } = validatorsFor(due);
  return downloader.download({
    url: new URL(address.url),
    isOfService: (url) => isBelow(url, listing.baseUrl),
    spool: store.spool,
    // The same name for the same file, so that it overwrites the partial file of a killed process.
    name: hash('sha256', JSON.stringify([row.resource, fileKeyText(row)]), 'hex'),
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

/** Returns those of the stored content, if the address is still the same but for a signature in its query. */
function validatorsFor({ row, address, current }: DueFile): Validators {
  const isSame = current !== null && withoutSignature(row.url) === withoutSignature(address.url);
  return isSame ? { etag: row.etag, last_modified: row.last_modified } : { etag: null, last_modified: null };
}

/** Puts a downloaded file into the store, and says what the download means for its row. */
async function storeResult(
  { scrub }: Fetch,
  store: ObjectStore,
  { address, row, current }: DueFile,
  result: Downloaded,
): Promise<FileOutcome> {
  const url = scrub(address.url);
  switch (result.kind) {
    case 'fetched': {
      const { etag, lastModified, bytes } = result;
      await store.put(result);
      const content = contentOf({ ...result, store: store.name }, { etag, last_modified: lastModified });
      return { is: 'fetched', url, content, bytes };
    }
    case 'unchanged': {
      const reason = 'the service says that it has not changed, and was not asked that';
      return current === null
        ? { is: 'failed', code: 'file_gone', reason }
        : { is: 'unchanged', url, content: contentOf(current, row) };
    }
    case 'gone':
      return { is: 'gone', url };
    case 'expired':
      return { is: 'failed', code: 'file_gone', reason: scrub(result.reason) };
    default: {
      const { code } = result;
      const reason = scrub(result.reason);
      // A record and its file may change one after the other: a minute later they may agree.
      return code === 'file_differs' ? { is: 'failed', code, reason } : { is: 'refused', url, code, reason };
    }
  }
}

function contentOf(
  { store, sha256, bytes, type, width, height }: Omit<FileContent, keyof Validators>,
  { etag, last_modified }: Validators,
): FileContent {
  return { store, sha256, bytes, type, width, height, etag, last_modified };
}
