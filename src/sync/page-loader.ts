import type { CompiledQuery } from 'kysely';
import type { Clock } from '../model/clock.ts';
import type { SourceRecord } from '../model/json.ts';
import type { ResourceShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { WalkMode } from '../model/words.ts';
import { sameJson, textHash } from '../shape/fingerprint.ts';
import { parseJson } from '../shape/parse-json.ts';
import { initialShape } from '../shape/shape-page.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { resolveRejects, saveReject } from '../state/rejects.ts';
import { currentBodies } from '../state/versions.ts';
import type { LeaseProof, PageCommit, Warehouse } from '../warehouse/warehouse.ts';
import { difference, type Difference } from '../load/diff.ts';
import { keyRecords, type KeyedRecord, type SetAside, type Updated } from '../load/key-records.ts';
import { growTables, shapeForWarehouse } from './grow-shape.ts';
import { finishReshape } from './reshape.ts';

export interface LoaderOptions {
  warehouse: Warehouse;
  resource: string;
  profile: ResourceProfile;
  /** All resources of the profile. */
  resources: readonly string[];
  /** The tables that stand; null where there are none yet. */
  shape: ResourceShape | null;
  mode: WalkMode;
  runId: string;
  lease: () => LeaseProof;
  /** Rejects still open from before: while there are none, no record can resolve one. */
  openRejects: number;
  clock: Clock;
  signal: AbortSignal;
}

/** What a page was, before it is committed: enough to move the checkpoint. */
export interface PageFacts {
  records: number;
  /** The service's own times of the page's records, those that have one. */
  updated: readonly Updated[];
}

/** What one page did to the warehouse. */
export interface PageOutcome {
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  rejected: number;
  /** Rows that an older state of the record replaced. */
  wentBack: number;
  /** Values that went into `_overflow`, were left out by the contract, or were repaired for their column. */
  overflowed: number;
  discarded: number;
  repaired: number;
}

/** Turns pages of one resource into committed rows; holds the resource's shape as it grows. */
export interface PageLoader {
  /**
   * Loads one page. `statements` is asked, once the page is understood, for what must be committed with it (the
   * checkpoint). Throws `SyncError`; then nothing of the page was written.
   */
  load(page: LoadablePage, statements: (facts: PageFacts) => CompiledQuery[]): Promise<PageOutcome>;
}

export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was asked for. */
  requestedAt: number;
}

/** Makes the resource's table, empty, where it is not there yet, so that a query finds it from the first run on. */
export async function openPageLoader(options: LoaderOptions): Promise<PageLoader> {
  const { warehouse, resource, profile } = options;
  let shape = options.shape ?? initialShape(resource, profile);
  if (options.shape === null) await growTables(options, null, shape, []);
  shape = await finishReshape(options, shape, options.signal);
  let openRejects = options.openRejects;

  return {
    async load(page, statements) {
      const { keyed, setAside } = keyRecords(page.records, profile);
      const found = await findDifference(options, shape, keyed, timestampText(page.requestedAt));
      const requestedAt = found.stampedAt;
      const fresh = [...found.inserts, ...found.updates];

      const shaped = await shapeForWarehouse(options, { shape, profile, records: fresh });
      if (shaped.shape !== shape) {
        await growTables(options, shape, shaped.shape, shaped.changes);
        shape = await finishReshape(options, shaped.shape, options.signal);
      }

      const aside = new Map(shaped.setAside.map((reject) => [reject.index, reject]));
      const written = fresh.filter((_, index) => !aside.has(index));
      for (const [index, { reason, detail }] of aside) setAside.push(rejected(fresh[index], reason, detail));
      openRejects += setAside.length;

      const facts = { records: page.records.length, updated: updatedTimes(keyed) };
      await warehouse.commit({
        ...pageRows(options, shape, shaped.rows, written, requestedAt),
        statements: [
          ...(openRejects > 0 ? resolveRejects(warehouse.own, resource, written.map(keyOf), requestedAt) : []),
          ...setAside.map((reject) => rejectStatement(options, reject, requestedAt)),
          ...statements(facts),
        ],
      });
      const { overflowed, discarded, repaired } = shaped;
      return { ...outcomeOf(found, aside, setAside, page.records.length), overflowed, discarded, repaired };
    },
  };
}

async function findDifference(
  options: LoaderOptions,
  shape: ResourceShape,
  keyed: readonly KeyedRecord[],
  requestedAt: string,
): Promise<Difference> {
  const { warehouse, resource, profile, mode, clock } = options;
  const [table] = shape.tables;
  if (table === undefined) throw new Error(`the shape of ${resource} has no table`);
  const updated = table.columns.find((column) => column.path.join('.') === profile.updated);
  const stored = await warehouse.stored(table, keyed.map(keyOf), updated?.name ?? null);
  const found = difference(keyed, stored, requestedAt, mode, timestampText(clock.now()));
  if (profile.history === 'none' || found.updates.length === 0) return found;

  const bodies = await currentBodies(warehouse.own, resource, found.updates.map(keyOf));
  // The same members in another order, or other spacing, is no change.
  const changed = found.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    return body === undefined || !sameJson(parseJson(body), value);
  });
  return { ...found, updates: changed, unchanged: found.unchanged + found.updates.length - changed.length };
}

function pageRows(
  options: LoaderOptions,
  shape: ResourceShape,
  rows: PageCommit['rows'],
  written: readonly KeyedRecord[],
  requestedAt: string,
): Omit<PageCommit, 'statements'> {
  const { profile } = options;
  return {
    lease: options.lease(),
    resource: options.resource,
    history: profile.history,
    requestedAt,
    rows,
    children: shape.tables.slice(1),
    records: written,
  };
}

function outcomeOf(
  found: Difference,
  aside: ReadonlyMap<number, unknown>,
  setAside: readonly SetAside[],
  records: number,
): Omit<PageOutcome, 'overflowed' | 'discarded' | 'repaired'> {
  const asideInserts = [...aside.keys()].filter((index) => index < found.inserts.length).length;
  const inserted = found.inserts.length - asideInserts;
  const updated = found.updates.length - (aside.size - asideInserts);
  // What is left are records that say nothing new, a key's second copy on the same page among them.
  const unchanged = records - inserted - updated - setAside.length;
  return { records, inserted, updated, unchanged, rejected: setAside.length, wentBack: found.wentBack };
}

function rejected(record: KeyedRecord | undefined, reason: string, detail: string): SetAside {
  return { key: record?.key ?? null, reason, detail, bytes: record?.bytes ?? Buffer.alloc(0) };
}

function rejectStatement(options: LoaderOptions, reject: SetAside, seenAt: string): CompiledQuery {
  const { resource, runId, warehouse } = options;
  return saveReject(
    warehouse.own,
    {
      resource,
      hash: textHash(reject.bytes),
      reason: reject.reason,
      record_id: reject.key,
      detail: reject.detail,
      body: reject.bytes.toString(),
      run_id: runId,
    },
    seenAt,
  );
}

function keyOf(record: { key: string }): string {
  return record.key;
}

function updatedTimes(records: readonly KeyedRecord[]): Updated[] {
  return records.flatMap((record) => (record.updated === null ? [] : [record.updated]));
}
