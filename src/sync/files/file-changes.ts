import type { CompiledQuery, Kysely } from 'kysely';
import type { FileObjectRow, FileRow, OwnTables, TimestampText } from '../../database/own-tables.ts';
import { changeFile, insertFiles, placeText, removeFile, replaceFile } from '../../database/state/files.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { FileAddress } from './file-address.ts';

/** A record, what is remembered of its files, and which it has by now. */
interface LookedAt {
  id: string;
  hash: string;
  known: readonly FileRow[];
  found: readonly FileAddress[];
}

interface Looking {
  resource: string;
  /** Names of the stores that files go to by now, by field. */
  stores: ReadonlyMap<string, string>;
  /** True to give another chance to what was refused or failed. */
  isForced: boolean;
  at: TimestampText;
  /** From when on what is no longer there is not shown. */
  goneAt: TimestampText;
  /** Takes secrets out of an address before it is stored. */
  scrub: (text: string) => string;
}

/** Nothing is known to be wrong, and nothing is to be done. */
const SETTLED = { due_at: null, attempts: 0, code: null, error: null } as const;
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

/** The statements that remember which files a record has: those to fetch wait, those that are gone are shown no more. */
export function changesOf(own: Kysely<OwnTables>, looking: Looking, record: LookedAt): CompiledQuery[] {
  const { at, goneAt } = looking;
  const { id, hash, known, found } = record;
  const last = new Map(known.map((row) => [placeText(row), row]));
  const stays = new Set(found.map((one) => placeText({ record_id: id, ...one })));
  const left = known.filter((row) => row.valid_to === null && !stays.has(placeText(row)));
  const changed = found.flatMap((stated) => {
    const address = { ...stated, url: looking.scrub(stated.url) };
    const row = last.get(placeText({ record_id: id, ...address }));
    if (row?.valid_to !== null) return insertFiles(own, [freshRow(looking, record, address, row)]);
    return address.fault === null
      ? awaited(own, looking, hash, address, row)
      : withoutContent(own, row, { ...REFUSED, url: address.url, error: address.fault, record_hash: hash }, at);
  });
  return [...left.flatMap((row) => hideFile(own, row, goneAt)), ...changed];
}

const REFUSED = { status: 'refused', code: 'file_address', next_url: null, due_at: null, attempts: 0 } as const;

/** What was here of a record that is back, or of an address that is, may be what it still shows. */
function freshRow(
  { resource, at }: Looking,
  { id, hash }: LookedAt,
  { field, position, url, fault }: FileAddress,
  before: FileRow | undefined,
): FileRow {
  const isBack = before !== undefined && before.url === url && fault === null;
  return {
    ...(isBack ? before : NO_CONTENT),
    resource,
    record_id: id,
    field,
    position,
    version: (before?.version ?? 0) + 1,
    url,
    next_url: null,
    ...SETTLED,
    ...(fault === null ? { status: 'waiting', due_at: at } : { ...REFUSED, error: fault }),
    record_hash: hash,
    fetched_at: null,
    valid_from: before?.valid_to != null && before.valid_to > at ? before.valid_to : at,
    valid_to: null,
  };
}

/** A file that is shown, and that its record still has. */
function awaited(
  own: Kysely<OwnTables>,
  { stores, isForced, at }: Looking,
  hash: string,
  { url, field }: FileAddress,
  row: FileRow,
): CompiledQuery[] {
  const isSame = row.record_hash === hash && (row.next_url ?? row.url) === url;
  const isElsewhere = row.store !== null && row.store !== stores.get(field);
  const isDone = row.status === 'stored' || row.status === 'waiting';
  if (isSame && (!isForced || (isDone && !isElsewhere))) return [];
  const address = row.sha256 === null ? { url, next_url: null } : { next_url: url === row.url ? null : url };
  return [changeFile(own, row, { ...SETTLED, ...address, record_hash: hash, status: 'waiting', due_at: at })];
}

/** A file is shown no more; of one that never came there is nothing to remember. */
function hideFile(own: Kysely<OwnTables>, row: FileRow, at: TimestampText): CompiledQuery[] {
  return [row.sha256 === null ? removeFile(own, row) : changeFile(own, row, earlier(row, at))];
}

/** What becomes of a row whose content is no longer the one that is shown. */
function earlier(row: FileRow, at: TimestampText): Partial<FileRow> {
  const valid_to = at < row.valid_from ? row.valid_from : at;
  return { ...SETTLED, status: 'stored', next_url: null, valid_to };
}

/** From now on the file shows nothing that is here; what it showed before stays as an earlier content. */
function withoutContent(
  own: Kysely<OwnTables>,
  row: FileRow,
  change: Partial<FileRow>,
  at: TimestampText,
): CompiledQuery[] {
  if (row.sha256 === null) return [changeFile(own, row, change)];
  const left = earlier(row, at);
  const valid_from = left.valid_to ?? at;
  return replaceFile(own, row, left, { ...NO_CONTENT, ...change, valid_from, valid_to: null });
}

/** By these the service decides whether it still serves the same content. */
export interface Validators {
  etag: string | null;
  last_modified: string | null;
}

export type FileContent = Pick<FileObjectRow, 'store' | 'sha256' | 'bytes' | 'type' | 'width' | 'height'> & Validators;

/** What became of a file that was due. */
export type FileOutcome =
  /** Its content is in the store; `bytes` were fetched for it. */
  | { is: 'here'; url: string; content: FileContent; fetched: number }
  /** It is still what is here. */
  | { is: 'unchanged'; url: string; content: FileContent }
  | { is: 'gone'; url: string }
  | { is: 'refused'; url: string; code: string; reason: string }
  | { is: 'failed'; code: string; reason: string }
  /** It could not be requested yet, for another reason than the file; epoch milliseconds. */
  | { is: 'put off'; until: number; code: string; reason: string };

export interface SettledFile {
  row: FileRow;
  outcome: FileOutcome;
}

/** The object that an outcome shows to be in its store; null if it shows none. */
export function objectOf(outcome: FileOutcome, now: number): FileObjectRow | null {
  if (outcome.is !== 'here' && outcome.is !== 'unchanged') return null;
  const { store, sha256, bytes, type, width, height } = outcome.content;
  return { store, sha256, bytes, type, width, height, stored_at: timestampText(now), checked_at: null, missing: 0 };
}

/** Between two attempts, by how many have failed: a minute at first, a day at most. */
const FIRST_WAIT_MS = 60_000;
const LONGEST_WAIT_MS = 86_400_000;
const GROWTH = 3;

/** Milliseconds until the next attempt. */
export function waitAfter(attempts: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * GROWTH ** Math.max(0, attempts - 1));
}

/** The statements that store an outcome; `now` in epoch milliseconds. */
export function settleFile(own: Kysely<OwnTables>, row: FileRow, outcome: FileOutcome, now: number): CompiledQuery[] {
  const at = timestampText(now);
  if (outcome.is === 'here' || outcome.is === 'unchanged') return withContent(own, row, outcome, at);
  if (outcome.is === 'gone' || outcome.is === 'refused') {
    const why =
      outcome.is === 'gone' ? { code: 'file_gone', error: GONE } : { code: outcome.code, error: outcome.reason };
    const change = { ...SETTLED, next_url: null, status: outcome.is, url: outcome.url, fetched_at: at, ...why };
    return withoutContent(own, row, change, at);
  }
  const { code, reason } = outcome;
  if (outcome.is === 'put off') {
    return [changeFile(own, row, { due_at: timestampText(outcome.until), code, error: reason })];
  }
  const attempts = row.attempts + 1;
  const due_at = timestampText(now + waitAfter(attempts));
  return [changeFile(own, row, { status: 'failed', attempts, due_at, code, error: reason })];
}

const GONE = 'the service no longer has it';

function withContent(
  own: Kysely<OwnTables>,
  row: FileRow,
  { url, content }: { url: string; content: FileContent },
  at: string,
): CompiledQuery[] {
  const shown = { ...SETTLED, next_url: null, ...content, status: 'stored', url, fetched_at: at } as const;
  const isOther = row.sha256 !== null && row.sha256 !== content.sha256;
  const left = earlier(row, at);
  return isOther
    ? replaceFile(own, row, left, { ...shown, valid_from: left.valid_to ?? at, valid_to: null })
    : [changeFile(own, row, shown)];
}
