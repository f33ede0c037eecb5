import { expect, it } from 'vitest';
import { findConditions } from '../../../src/server/alerts/plan-alerts.ts';
import { attentionOf } from '../../../src/server/status/attention.ts';
import type { FilesStatus, StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import { NOW, resourceWith, runWith, snapshotWith, sourceWith } from '../endpoints/sample-status.ts';

const ALL_HERE: FilesStatus = { stored: 9, waiting: 4, failed: 0, refused: 0, gone: 1, bytes: 5_000, trouble: null };
const FULL = { code: 'file_store_full', message: 'no space left', hint: 'make room', since: NOW - 60_000 };
const failed = (code: string, message: string) => ({
  trouble: { record_id: 'a7', field: 'file', status: 'failed', code, message } as const,
});
const OUTAGE = failed('http_503', 'answered 503');

function snapshotOf(files: Partial<FilesStatus>, isStopped = false): StatusSnapshot {
  const resources = [resourceWith('images', { files: { ...ALL_HERE, ...files } })];
  return snapshotWith({ sources: [sourceWith('blog', { resources, ...(isStopped ? { files_stopped: FULL } : {}) })] });
}

it.each<[string, StatusSnapshot, string[], string[]]>([
  ['nothing if all files are here, or the service no longer has them', snapshotOf({}), [], []],
  [
    'how many files could not be fetched, and why',
    snapshotOf({ failed: 24, ...OUTAGE }),
    ['look: 24 files could not be fetched so far, such as file of a7: answered 503 [http_503]'],
    [],
  ],
  [
    'with an alert if there are many',
    snapshotOf({ failed: 25, ...OUTAGE }),
    ['look: 25 files could not be fetched so far, such as file of a7: answered 503 [http_503]'],
    ['files filesMissing'],
  ],
  [
    'files that the profile does not admit',
    snapshotOf({ refused: 1, ...failed('file_type', 'it is a page') }),
    ['look: 1 file is refused, such as file of a7: it is a page [file_type]'],
    [],
  ],
  [
    'both',
    snapshotOf({ failed: 1, refused: 3, ...OUTAGE }),
    ['look: 1 file could not be fetched so far, such as file of a7: answered 503 [http_503]; 3 files are refused'],
    [],
  ],
  [
    'a store that is full, and since when',
    snapshotOf({}, true),
    ['late: No files are fetched, which began 1m 00s ago: no space left [file_store_full]'],
    ['files filesStopped'],
  ],
])('reports %s', (_, snapshot, findings, alerts) => {
  expect(attentionOf(snapshot).map(({ severity, what }) => `${severity}: ${what}`)).toEqual(findings);
  expect(findConditions(snapshot).conditions.map(({ kind, cause }) => `${kind} ${cause}`)).toEqual(alerts);
});

it.each<[boolean, string[], number, string[]]>([
  [true, ['files_waiting'], 0, ['files filesStopped']],
  [false, ['files_failed', 'files_refused', 'files_waiting'], 0, []],
  [false, ['files_failed', 'end_unproved'], 0, ['partial end_unproved']],
  [false, ['files_failed'], 1, ['partial : records were rejected']],
])(
  'reports files once, although the last run warns too (stopped: %s, %j, %i rejected)',
  (isStopped, codes, rejected, expected) => {
    const warnings = codes.map((code) => ({ code, message: `${code} of images`, hint: 'see which' }));
    const resources = [resourceWith('images', { runs: [runWith({ status: 'partial', warnings, rejected })] })];
    const [source] = snapshotOf({}, isStopped).sources;
    const snapshot = snapshotWith({ sources: source === undefined ? [] : [{ ...source, resources }] });
    expect(findConditions(snapshot).conditions.map(({ kind, cause }) => `${kind} ${cause}`)).toEqual(expected);
  },
);
