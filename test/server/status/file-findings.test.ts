import { expect, it } from 'vitest';
import { judge } from '../../../src/server/alerts/plan-alerts.ts';
import { attentionOf } from '../../../src/server/status/attention.ts';
import type { FilesStatus } from '../../../src/server/status/snapshot.ts';
import { NOW, resourceWith, runWith, snapshotWith, sourceWith } from '../endpoints/sample-status.ts';

const NONE: FilesStatus = { stored: 9, waiting: 0, failed: 0, refused: 0, gone: 1, bytes: 5_000, trouble: null };
const TROUBLE = {
  record_id: 'a7',
  field: 'file',
  status: 'failed',
  code: 'http_503',
  message: 'answered 503',
} as const;

function snapshotOf(files: FilesStatus, stopped = false) {
  const full = { code: 'file_store_full', message: 'no space left', hint: 'make room', since: NOW - 60_000 };
  const source = sourceWith('blog', {
    resources: [resourceWith('images', { files })],
    ...(stopped ? { files_stopped: full } : {}),
  });
  return snapshotWith({ sources: [source] });
}

/** Once a run has said so, where one file waits. */
function snapshotAfter(stopped: boolean, codes: readonly string[], rejected = 0) {
  const [source] = snapshotOf({ ...NONE, waiting: 1 }, stopped).sources;
  const warnings = codes.map((code) => ({ code, message: `${code} of images`, hint: 'see which' }));
  const resources = [resourceWith('images', { runs: [runWith({ status: 'partial', warnings, rejected })] })];
  return snapshotWith({ sources: source === undefined ? [] : [{ ...source, resources }] });
}

const kindsAfter = (...after: Parameters<typeof snapshotAfter>): string[] =>
  judge(snapshotAfter(...after)).conditions.map(({ kind, cause }) => `${kind} ${cause}`);
const seenAfter = (...after: Parameters<typeof snapshotAfter>): string[] =>
  attentionOf(snapshotAfter(...after)).map(({ what }) => what.split(/[,:]/)[0] ?? '');

const told = (files: FilesStatus, stopped = false): string[] =>
  attentionOf(snapshotOf(files, stopped)).map(({ severity, what }) => `${severity}: ${what}`);
const alerted = (files: FilesStatus, stopped = false): string[] =>
  judge(snapshotOf(files, stopped)).conditions.map(({ kind, cause }) => `${kind} ${cause}`);

it('asks for nobody where all files are here, or the service no longer has them', () => {
  expect(told({ ...NONE, waiting: 4 })).toEqual([]);
});

it('tells how many files are not here, and why one of them is not', () => {
  expect(told({ ...NONE, failed: 2, trouble: TROUBLE })).toEqual([
    'look: 2 files could not be fetched so far, such as file of a7: answered 503 [http_503]',
  ]);
  expect(told({ ...NONE, refused: 1, trouble: { ...TROUBLE, code: 'file_type', message: 'it is a page' } })).toEqual([
    'look: 1 file is refused, such as file of a7: it is a page [file_type]',
  ]);
  expect(told({ ...NONE, failed: 1, refused: 3, trouble: TROUBLE })).toEqual([
    'look: 1 file could not be fetched so far, such as file of a7: answered 503 [http_503]; 3 files are refused',
  ]);
});

it('tells that all stand still, and since when', () => {
  expect(told(NONE, true)).toEqual([
    'late: No files are fetched, which began 1m 00s ago: no space left [file_store_full]',
  ]);
});

it('alerts where a store is full, or many have failed', () => {
  expect(alerted({ ...NONE, failed: 24, trouble: TROUBLE })).toEqual([]);
  expect(alerted({ ...NONE, failed: 25, trouble: TROUBLE })).toEqual(['files filesMissing']);
  expect(alerted(NONE, true)).toEqual(['files filesStopped']);
});

it('tells and alerts once, however the last run says it too', () => {
  expect(kindsAfter(true, ['files_waiting'])).toEqual(['files filesStopped']);
  expect(seenAfter(true, ['files_waiting'])).toEqual(['No files are fetched']);
  expect(seenAfter(false, ['files_waiting'])).toEqual(['files_waiting of images']);
  expect(kindsAfter(false, ['files_failed', 'files_refused', 'files_waiting'])).toEqual([]);
  expect(kindsAfter(false, ['files_failed', 'end_unproved'])).toEqual(['partial end_unproved']);
  expect(kindsAfter(false, ['files_failed'], 1)).toEqual(['partial : records were set aside']);
});
