import type { ResourceShape } from '../../model/table.ts';
import { comparedPart } from '../../shape/mask-fields.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { inParts } from '../../state/in-parts.ts';
import type { SnapshotReader } from '../../warehouse/snapshot-reader.ts';
import type { VersionRow } from '../../warehouse/own-tables.ts';
import type { Findings } from './certificate.ts';
import { versionFaults } from './check-versions.ts';
import { contentFrom, expectedCells, expectedRecords } from './expected-rows.ts';
import { cellsByField, differingFields } from './spelled-rows.ts';
import { storedPages, storedRecord, versionsWithoutRow, type StoredPage, type StoredRecord } from './stored-records.ts';

/** A resource of the copy as it stands at one moment. */
export interface StoredResource {
  snapshot: SnapshotReader;
  shape: ResourceShape;
  profile: ResourceProfile;
  findings: Findings;
  signal: AbortSignal;
  /** Called with each live row and what it says (`contentOf`); null if its body is not there to tell. */
  seen?: (key: string, content: string | null) => void;
}

/** Records whose versions are read as one: their bodies are in memory together. */
const RECORDS_PER_STEP = 50;
type Version = Omit<VersionRow, 'resource' | 'source_text'>;

/**
 * Compares what the copy holds with itself: each row and its child rows with what its stored body gives, child rows with
 * the rows above them, versions with each other and with the row. Reads only; adds what it finds to `findings`.
 */
export async function compareStored(stored: StoredResource): Promise<void> {
  const { snapshot, shape, profile, findings, signal } = stored;
  const keepsBodies = profile.history !== 'none' && (await hasVersions(stored));
  tellChecks(stored, keepsBodies);
  for await (const page of storedPages(snapshot, shape)) {
    signal.throwIfAborted();
    checkPage(stored, page, keepsBodies);
    if (keepsBodies) await compareBodies(stored, [...page.records.values()]);
    else for (const record of page.records.values()) if (!record.isDeleted) tellSeen(stored, record, record.hash);
  }
  if (!keepsBodies) return;
  for await (const id of versionsWithoutRow(snapshot, shape)) {
    findings.add({ kind: 'version_lost', id, detail: 'there are versions of it, and no row' });
  }
}

function tellChecks({ profile, findings }: StoredResource, keepsBodies: boolean): void {
  findings.checks.push('child rows belong to live rows, with positions from 0');
  if (keepsBodies) {
    findings.checks.push('each cell of live rows, and all child rows, are what shaping the stored body gives');
    findings.checks.push(
      profile.history === 'all'
        ? 'versions go from 1 to that of the row, each ends where the next begins, and has the fingerprint of its body'
        : 'the latest version is that of the row, and has the fingerprint of its body',
    );
    findings.notCompared.push('cells of deleted rows, and of columns that stay beside a wider one');
  } else {
    const why = profile.history === 'none' ? 'history: none keeps none' : 'none are kept yet under this history';
    findings.notCompared.push(`rows with stored bodies: ${why}`);
  }
}

async function hasVersions({ snapshot, shape }: StoredResource): Promise<boolean> {
  const one = snapshot.own.selectFrom('_sync_versions').select('id').where('resource', '=', shape.resource).limit(1);
  return (await one.execute()).length > 0;
}

function checkPage({ findings }: StoredResource, { records, orphans }: StoredPage, keepsBodies: boolean): void {
  for (const { key, isDeleted, childRows, hasGap } of records.values()) {
    findings.compared[isDeleted ? 'deleted_rows' : 'rows'] += 1;
    findings.compared.child_rows += childRows;
    if (isDeleted && childRows > 0) findings.add({ kind: 'orphans', id: key, detail: 'its row is deleted' });
    else if (hasGap && !keepsBodies) findings.add({ kind: 'positions', id: key });
  }
  for (const { table, key } of orphans) findings.add({ kind: 'orphans', id: key, fields: [table] });
}

/** The stored bodies of these rows: what they give, and whether the versions hold together. */
async function compareBodies(stored: StoredResource, records: readonly StoredRecord[]): Promise<void> {
  const { findings, profile } = stored;
  for (const part of inParts(records, RECORDS_PER_STEP)) {
    const versions = await versionsOf(
      stored,
      part.map(({ key }) => key),
    );
    const live: { record: StoredRecord; body: string }[] = [];
    for (const record of part) {
      const own = versions.get(record.key) ?? [];
      findings.compared.versions += own.length;
      for (const fault of versionFaults(profile.history, record, own)) findings.add({ id: record.key, ...fault });
      const current = own.at(-1);
      const body = current?.op === 'upsert' ? current.body : null;
      if (!record.isDeleted && body !== null) live.push({ record, body });
      else if (!record.isDeleted) stored.seen?.(record.key, null);
    }
    await compareRows(stored, live);
  }
}

async function versionsOf(
  { snapshot, shape }: StoredResource,
  keys: readonly string[],
): Promise<Map<string, Version[]>> {
  const rows = await snapshot.own
    .selectFrom('_sync_versions')
    .select(['id', 'version', 'valid_from', 'valid_to', 'op', 'hash', 'body'])
    .where('resource', '=', shape.resource)
    .where('id', 'in', keys)
    .execute();
  const sorted = rows.toSorted((a, b) => a.version - b.version);
  return Map.groupBy(sorted, ({ id }) => id);
}

async function compareRows(
  stored: StoredResource,
  live: readonly { record: StoredRecord; body: string }[],
): Promise<void> {
  const { shape, profile, findings } = stored;
  // Values that a contract left out stay left out, and what a stored body gives is never set aside.
  const kept = { ...profile, contract: profile.contract === 'evolve' ? 'evolve' : 'discard_value' } as const;
  const records = live.flatMap(({ record: { key }, body }) => {
    const value = readBody(body, profile);
    if (value === undefined) findings.add({ kind: 'body', id: key, detail: 'it is no JSON' });
    return value === undefined ? [] : [{ key, value, bytes: Buffer.from(body) }];
  });
  const expected = new Map(expectedRecords(shape, kept, records).map(({ key, digest }) => [key, digest]));
  const rows = new Map(live.map(({ record }) => [record.key, record]));
  for (const record of records) {
    const row = rows.get(record.key);
    const digest = expected.get(record.key);
    if (row === undefined) continue;
    findings.compared.bodies += 1;
    tellSeen(stored, row, canonicalHash(record.value));
    if (digest === row.digest) continue;
    const found = await storedRecord(stored.snapshot, shape, record.key);
    const cells = expectedCells(shape, kept, record) ?? new Map<string, string>();
    const fields = differingFields(cells, cellsByField(shape, found?.rows ?? []));
    findings.add({ kind: 'cells', id: record.key, fields });
  }
}

function readBody(body: string, profile: ResourceProfile) {
  try {
    return comparedPart(profile.fields)(storedValue(body, profile));
  } catch {
    return undefined;
  }
}

function tellSeen({ seen }: StoredResource, { key, digest }: StoredRecord, hash: string): void {
  seen?.(key, contentFrom(hash, digest));
}
