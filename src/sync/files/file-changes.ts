// Builds the statements that update `_sync_files`, in which a row is one content of one file, from `valid_from` until
// `valid_to`. First, when a record changed: the files that it names now are due to be fetched, others end
// (`recordFileChanges`). Then, when a file was fetched, or could not be: its new content or its error (`saveOutcome`).
import type { CompiledQuery, Kysely } from 'kysely';
import type { FileObjectRow, FileRow, OwnTables, TimestampText } from '../../database/own-tables.ts';
import { changeFile, fileKeyText, insertFiles, removeFile, replaceFile } from '../../database/state/files.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { FileAddress } from './file-address.ts';

/** A record with its files. */
interface RecordFiles {
  id: string;
  hash: string;
  /** The last row of each stored file. */
  known: readonly FileRow[];
  /** The files that the record names now. */
  found: readonly FileAddress[];
}

interface RecordFilesContext {
  resource: string;
  /** Names of the stores by field, as the settings have them now. */
  stores: ReadonlyMap<string, string>;
  /** True after a change of the settings: files that were refused or failed, or belong into another store, are due again. */
  isForced: boolean;
  at: TimestampText;
  /** When files that the record no longer names end. */
  endedAt: TimestampText;
  /** Removes secrets from an address before it is stored. */
  scrub: (text: string) => string;
}

/** No error, and no attempt is due. */
const NO_ERROR = { due_at: null, attempts: 0, code: null, error: null } as const;
const NO_CONTENT = {
  store: null,
  sha256: null,
  bytes: null,
  type: null,
  width: null,
  height: null,
  etag: null,
  last_modified: null,
} as const;

/** Returns the statements for a changed record: its new and changed files are due, those that it no longer names end. */
export function recordFileChanges(
  own: Kysely<OwnTables>,
  context: RecordFilesContext,
  record: RecordFiles,
): CompiledQuery[] {
  const { at, endedAt, scrub } = context;
  const { id, hash, known, found } = record;
  const stored = new Map(known.map((row) => [fileKeyText(row), row]));
  const named = new Set(found.map((file) => fileKeyText({ record_id: id, ...file })));
  const unnamed = known.filter((row) => row.valid_to === null && !named.has(fileKeyText(row)));
  const ends = unnamed.map((row) => {
    // A file that was never fetched leaves no earlier content.
    return row.sha256 === null ? removeFile(own, row) : changeFile(own, row, endedChange(row, endedAt));
  });
  const changes = found.flatMap((file) => {
    const address = { ...file, url: scrub(file.url) };
    const row = stored.get(fileKeyText({ record_id: id, ...address }));
    // The record never had this file, or had it once.
    if (row?.valid_to !== null) return insertFiles(own, [newRow(context, record, address, row)]);
    return address.fault === null
      ? markDueIfChanged(own, context, hash, address, row)
      : endContent(own, row, { ...REFUSED, url: address.url, error: address.fault, record_hash: hash }, at);
  });
  return [...ends, ...changes];
}

const REFUSED = { status: 'refused', code: 'file_address', next_url: null, due_at: null, attempts: 0 } as const;

/** Returns the row of a new file. If the record had it once (`before`), at this address, its content may be the same. */
function newRow(
  { resource, at }: RecordFilesContext,
  { id, hash }: RecordFiles,
  { field, position, url, fault }: FileAddress,
  before: FileRow | undefined,
): FileRow {
  const mayHaveContent = before !== undefined && before.url === url && fault === null;
  return {
    ...(mayHaveContent ? before : NO_CONTENT),
    resource,
    record_id: id,
    field,
    position,
    version: (before?.version ?? 0) + 1,
    url,
    next_url: null,
    ...NO_ERROR,
    ...(fault === null ? { status: 'waiting', due_at: at } : { ...REFUSED, error: fault }),
    record_hash: hash,
    fetched_at: null,
    valid_from: before?.valid_to != null && before.valid_to > at ? before.valid_to : at,
    valid_to: null,
  };
}

/** Makes a current file due again if its record or address changed, or if `isForced` requires it. */
function markDueIfChanged(
  own: Kysely<OwnTables>,
  { stores, isForced, at }: RecordFilesContext,
  hash: string,
  { url, field }: FileAddress,
  row: FileRow,
): CompiledQuery[] {
  const isSame = row.record_hash === hash && (row.next_url ?? row.url) === url;
  const isInOtherStore = row.store !== null && row.store !== stores.get(field);
  const isDone = row.status === 'stored' || row.status === 'waiting';
  if (isSame && (!isForced || (isDone && !isInOtherStore))) return [];
  // A stored file keeps its `url` until the content at the new one is fetched.
  const address = row.sha256 === null ? { url, next_url: null } : { next_url: url === row.url ? null : url };
  return [changeFile(own, row, { ...NO_ERROR, ...address, record_hash: hash, status: 'waiting', due_at: at })];
}

/** Returns the change that makes the current row that of an earlier content. */
function endedChange(row: FileRow, at: TimestampText): Partial<FileRow> {
  const valid_to = at < row.valid_from ? row.valid_from : at;
  return { ...NO_ERROR, status: 'stored', next_url: null, valid_to };
}

/** Ends the content of a file, which has none from then on, for the reason in `change`. */
function endContent(
  own: Kysely<OwnTables>,
  row: FileRow,
  change: Partial<FileRow>,
  at: TimestampText,
): CompiledQuery[] {
  if (row.sha256 === null) return [changeFile(own, row, change)];
  const before = endedChange(row, at);
  const valid_from = before.valid_to ?? at;
  return replaceFile(own, row, before, { ...NO_CONTENT, ...change, valid_from, valid_to: null });
}

/** Headers of a response by which the service can later tell that it still serves the same content (304). */
export interface Validators {
  etag: string | null;
  last_modified: string | null;
}

export type FileContent = Pick<FileObjectRow, 'store' | 'sha256' | 'bytes' | 'type' | 'width' | 'height'> & Validators;

/** The result of fetching a file that was due. */
export type FileOutcome =
  /** Its content is in the store; `bytes` is the size of the download. */
  | { is: 'fetched'; url: string; content: FileContent; bytes: number }
  /** The stored content is still current. */
  | { is: 'unchanged'; url: string; content: FileContent }
  | { is: 'gone'; url: string }
  | { is: 'refused'; url: string; code: string; reason: string }
  | { is: 'failed'; code: string; reason: string }
  /** It could not be requested yet, for another reason than the file; `until` in epoch milliseconds. */
  | { is: 'deferred'; until: number; code: string; reason: string };

export interface FetchedFile {
  row: FileRow;
  outcome: FileOutcome;
}

/** Returns the row of the object that this outcome has put into a store; null if it has put none. */
export function toObjectRow(outcome: FileOutcome, now: number): FileObjectRow | null {
  if (outcome.is !== 'fetched' && outcome.is !== 'unchanged') return null;
  const { store, sha256, bytes, type, width, height } = outcome.content;
  return { store, sha256, bytes, type, width, height, stored_at: timestampText(now), checked_at: null, missing: 0 };
}

const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 86_400_000;
const WAIT_GROWTH = 3;

/** Milliseconds until the next attempt after this many failures in a row. */
export function waitAfter(attempts: number): number {
  return Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * WAIT_GROWTH ** Math.max(0, attempts - 1));
}

/** Returns the statements that store the outcome of fetching a file; `now` in epoch milliseconds. */
export function saveOutcome(own: Kysely<OwnTables>, row: FileRow, outcome: FileOutcome, now: number): CompiledQuery[] {
  const at = timestampText(now);
  switch (outcome.is) {
    case 'fetched':
    case 'unchanged': {
      const { url, content } = outcome;
      const stored = { ...NO_ERROR, next_url: null, ...content, status: 'stored', url, fetched_at: at } as const;
      if (row.sha256 === null || row.sha256 === content.sha256) return [changeFile(own, row, stored)];
      const before = endedChange(row, at);
      return replaceFile(own, row, before, { ...stored, valid_from: before.valid_to ?? at, valid_to: null });
    }
    case 'gone':
    case 'refused': {
      const why =
        outcome.is === 'gone'
          ? { code: 'file_gone', error: 'the service no longer has it' }
          : { code: outcome.code, error: outcome.reason };
      const change = { ...NO_ERROR, next_url: null, status: outcome.is, url: outcome.url, fetched_at: at, ...why };
      return endContent(own, row, change, at);
    }
    case 'deferred':
      return [
        changeFile(own, row, { due_at: timestampText(outcome.until), code: outcome.code, error: outcome.reason }),
      ];
    default: {
      const attempts = row.attempts + 1;
      const due_at = timestampText(now + waitAfter(attempts));
      const { code, reason } = outcome;
      return [changeFile(own, row, { status: 'failed', attempts, due_at, code, error: reason })];
    }
  }
}
