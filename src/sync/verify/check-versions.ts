import type { HistoryPolicy } from '../../model/vocabulary.ts';
import { textHash } from '../../shape/records/fingerprint.ts';
import type { VersionRow } from '../../warehouse/own-tables.ts';
import type { DifferenceKind } from './certificate.ts';
import type { StoredRecord } from './stored-records.ts';

/** A fault of a record's versions. */
export interface VersionFault {
  kind: DifferenceKind;
  detail: string;
}

type Version = Omit<VersionRow, 'resource' | 'source_text'>;

/**
 * What is wrong with the versions of a record, in their order. With `all` they go from 1 to that of the row, each ends
 * where the next begins, and the last one stands for the row; with `latest` there is that one; with `none` nothing is kept.
 */
export function versionFaults(
  policy: HistoryPolicy,
  row: Pick<StoredRecord, 'hash' | 'version' | 'isDeleted'>,
  versions: readonly Version[],
): VersionFault[] {
  if (policy === 'none') return [];
  const current = versions.at(-1);
  // A row that was never a record of the service has none, even when it is deleted.
  if (current === undefined) return row.isDeleted ? [] : [{ kind: 'version_lost', detail: 'the row has no version' }];
  return [
    ...(policy === 'all' ? chainFaults(versions) : []),
    ...(policy === 'latest' ? latestFaults(versions) : []),
    ...stateFaults(row, current),
    ...versions.flatMap(hashFault),
  ];
}

function chainFaults(versions: readonly Version[]): VersionFault[] {
  // A row that was never a record of the service has no other when it is deleted.
  if (versions.length === 1 && versions[0]?.op === 'delete') return [];
  return versions.flatMap((version, at): VersionFault[] => {
    const before = versions[at - 1];
    const expected = before === undefined ? 1 : before.version + 1;
    const gap =
      version.version === expected
        ? []
        : [{ kind: 'version_gap', detail: `version ${version.version} comes where ${expected} should` } as const];
    if (before === undefined || before.valid_to === version.valid_from) return gap;
    // A gap has no end to compare.
    const isBesideGap = gap.length > 0 && before.valid_to !== null;
    return isBesideGap
      ? gap
      : [...gap, { kind: 'version_times', detail: `version ${before.version} does not end where the next begins` }];
  });
}

function latestFaults(versions: readonly Version[]): VersionFault[] {
  const open = versions.filter(({ valid_to }) => valid_to === null);
  return open.length === 1 ? [] : [{ kind: 'version_times', detail: `${open.length} versions have no end` }];
}

function stateFaults(row: Pick<StoredRecord, 'hash' | 'version' | 'isDeleted'>, current: Version): VersionFault[] {
  const faults: VersionFault[] = [];
  const say = (kind: DifferenceKind, detail: string): void => void faults.push({ kind, detail });
  if (current.valid_to !== null) say('version_times', `version ${current.version} is the last one and has an end`);
  if (current.version !== row.version)
    say('version_state', `the row is version ${row.version}, and the last one kept is ${current.version}`);
  if ((current.op === 'delete') !== row.isDeleted)
    say(
      'version_state',
      row.isDeleted ? 'the row is deleted, and its last version is not' : 'its last version is a delete',
    );
  else if (current.hash !== row.hash) say('hash', 'the fingerprint of the row is not that of its version');
  if (current.op === 'upsert' && current.body === null) say('body', `version ${current.version} has no body`);
  return faults;
}

function hashFault({ version, body, hash, op }: Version): VersionFault[] {
  if (op === 'delete' || body === null || textHash(body) === hash) return [];
  return [{ kind: 'hash', detail: `the fingerprint of version ${version} is not that of its body` }];
}
