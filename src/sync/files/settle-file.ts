import type { CompiledQuery, Kysely } from 'kysely';
import { timestampText } from '../../model/timestamp-text.ts';
import { changeFile, replaceFile } from '../../state/files/record-files.ts';
import type { FileObjectRow, FileRow } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { earlier, withoutContent } from './file-changes.ts';

/** A content that stands in its store, and by what the service tells whether it still serves it. */
export type FileContent = Pick<FileObjectRow, 'store' | 'sha256' | 'bytes' | 'type' | 'width' | 'height'> &
  Pick<FileRow, 'etag' | 'last_modified'>;

/** What became of a file that was due. */
export type FileOutcome =
  /** Its content is in the store; `bytes` were fetched for it. */
  | { is: 'here'; url: string; content: FileContent; fetched: number }
  /** It is still what is here. */
  | { is: 'unchanged'; url: string; content: FileContent }
  | { is: 'gone'; url: string }
  | { is: 'refused'; url: string; code: string; reason: string }
  | { is: 'failed'; code: string; reason: string }
  /** It could not be asked for yet, through no fault of its own; epoch milliseconds. */
  | { is: 'put off'; until: number; code: string; reason: string };

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

/** Milliseconds after so many failed attempts in a row. */
export function waitAfter(attempts: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * GROWTH ** Math.max(0, attempts - 1));
}

const DONE = { next_url: null, due_at: null, attempts: 0, code: null, error: null } as const;

/** The statements that remember an outcome at a moment (epoch milliseconds). */
export function settleFile(own: Kysely<OwnTables>, row: FileRow, outcome: FileOutcome, now: number): CompiledQuery[] {
  const at = timestampText(now);
  if (outcome.is === 'here' || outcome.is === 'unchanged') return withContent(own, row, outcome, at);
  if (outcome.is === 'gone') {
    const { url } = outcome;
    const gone = { ...DONE, status: 'gone', url, fetched_at: at, code: 'file_gone', error: GONE } as const;
    return withoutContent(own, row, gone, at);
  }
  if (outcome.is === 'refused') {
    const { url, code, reason } = outcome;
    return withoutContent(own, row, { ...DONE, status: 'refused', url, fetched_at: at, code, error: reason }, at);
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
  const shown = { ...DONE, ...content, status: 'stored', url, fetched_at: at } as const;
  const isOther = row.sha256 !== null && row.sha256 !== content.sha256;
  const left = earlier(row, at);
  return isOther
    ? replaceFile(own, row, left, { ...shown, valid_from: left.valid_to ?? at, valid_to: null })
    : [changeFile(own, row, shown)];
}
