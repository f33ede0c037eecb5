import type { CompiledQuery } from 'kysely';
import type { Clock } from '../model/clock.ts';
import type { SourceRecord } from '../model/json.ts';
import type { ResourceShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { sameJson, textHash } from '../shape/fingerprint.ts';
import { parseJson } from '../shape/parse-json.ts';
import { initialShape, type ShapedPage } from '../shape/shape-page.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { readTables } from '../state/column-catalog.ts';
import { resolveRejects, saveReject } from '../state/rejects.ts';
import { suspectListed } from '../state/suspects.ts';
import { currentBodies } from '../state/versions.ts';
import type { PageCommit, Warehouse } from '../warehouse/warehouse.ts';
import { difference, type Difference, type Reading } from '../load/diff.ts';
import { keyRecords, type KeyedRecord, type SetAside, type Updated } from '../load/key-records.ts';
import { growTables, shapeForWarehouse, type GrowthContext } from './grow-shape.ts';
import type { Holding } from './holding.ts';
import { finishReshape } from './reshape.ts';

export interface LoaderOptions {
  warehouse: Warehouse;
  holding: Holding;
  profile: ResourceProfile;
  /** All resources of the profile. */
  resources: readonly string[];
  reading: Reading;
  runId: string;
  clock: Clock;
  signal: AbortSignal;
}

/** What a page was, before it is committed: enough to move the checkpoint. */
export interface PageFacts {
  records: number;
  keys: readonly string[];
  /** Records without a usable id. */
  unkeyed: number;
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

/** Turns pages of one resource into committed rows. */
export interface PageLoader {
  /**
   * Loads one page, in a turn of its own. `statements` is asked, once the page is understood, for what must be committed with it (the
   * checkpoint). Throws `SyncError`; then nothing of the page was written.
   */
  load(page: LoadablePage, statements: (facts: PageFacts) => CompiledQuery[]): Promise<PageOutcome>;
}

export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was asked for. */
  requestedAt: number;
}

/** What every step of loading knows. */
type LoaderContext = LoaderOptions & GrowthContext;

/** Makes the resource's table, empty, where it is not there yet, so that a query finds it from the first run on. */
export async function openPageLoader(options: LoaderOptions): Promise<PageLoader> {
  const { holding } = options;
  const context = { ...options, resource: holding.resource, lease: () => holding.lease() };
  await holding.takeTurn(() => openTables(context));
  return { load: (page, statements) => holding.takeTurn(() => loadPage(context, page, statements)) };
}

async function openTables(context: LoaderContext): Promise<void> {
  const { warehouse, holding, resource, profile } = context;
  const known = holding.shape ?? (await readTables(warehouse, resource));
  const shape = known ?? initialShape(resource, profile);
  if (known === null) await growTables(context, null, shape, []);
  holding.shape = await finishReshape(context, shape, context.signal);
}

async function loadPage(
  context: LoaderContext,
  page: LoadablePage,
  statements: (facts: PageFacts) => CompiledQuery[],
): Promise<PageOutcome> {
  const { warehouse, holding, resource, profile } = context;
  const { keyed, setAside } = keyRecords(page.records, profile);
  const unkeyed = setAside.length;
  const found = await findDifference(context, shapeOf(holding), keyed, timestampText(page.requestedAt));
  const requestedAt = found.stampedAt;
  const fresh = [...found.inserts, ...found.updates];
  const shaped = await shapedFor(context, fresh);

  const aside = new Map(shaped.setAside.map((reject) => [reject.index, reject]));
  const written = fresh.filter((_, index) => !aside.has(index));
  for (const [index, { reason, detail }] of aside) setAside.push(rejected(fresh[index], reason, detail));
  const mayResolve = holding.openRejects > 0 || setAside.length > 0;

  const facts = { records: page.records.length, keys: keyed.map(keyOf), unkeyed, updated: updatedTimes(keyed) };
  await warehouse.commit({
    ...pageRows(context, shapeOf(holding), shaped.rows, written, requestedAt),
    statements: [
      ...(mayResolve ? resolveRejects(warehouse.own, resource, written.map(keyOf), requestedAt) : []),
      ...setAside.map((reject) => rejectStatement(context, reject, requestedAt)),
      ...suspectListed(warehouse.own, resource, found.doubtful.map(keyOf), requestedAt),
      ...statements(facts),
    ],
  });
  holding.openRejects += setAside.length;
  for (const watch of holding.watches) noteMet(watch, keyed, page.requestedAt);
  const { overflowed, discarded, repaired } = shaped;
  return { ...outcomeOf(found, aside, setAside, page.records.length), overflowed, discarded, repaired };
}

/** The records as rows of tables that have grown to hold them. */
async function shapedFor(context: LoaderContext, records: readonly KeyedRecord[]): Promise<ShapedPage> {
  const { holding, profile } = context;
  const before = shapeOf(holding);
  const shaped = await shapeForWarehouse(context, { shape: before, profile, records });
  if (shaped.shape === before) return shaped;
  await growTables(context, before, shaped.shape, shaped.changes);
  holding.shape = shaped.shape;
  holding.shape = await finishReshape(context, shaped.shape, context.signal);
  return shaped;
}

function shapeOf({ shape, resource }: Holding): ResourceShape {
  if (shape === null) throw new Error(`the tables of ${resource} were not opened`);
  return shape;
}

async function findDifference(
  context: LoaderContext,
  shape: ResourceShape,
  keyed: readonly KeyedRecord[],
  requestedAt: string,
): Promise<Difference> {
  const { warehouse, resource, profile, reading, clock } = context;
  const [table] = shape.tables;
  if (table === undefined) throw new Error(`the shape of ${resource} has no table`);
  const updated = table.columns.find((column) => column.path.join('.') === profile.updated);
  const stored = await warehouse.stored(table, keyed.map(keyOf), updated?.name ?? null);
  const found = difference(keyed, stored, requestedAt, reading, timestampText(clock.now()));
  if (profile.history === 'none' || found.updates.length === 0) return found;

  const bodies = await currentBodies(warehouse.own, resource, found.updates.map(keyOf));
  // The same members in another order, or other spacing, is no change.
  const changed = found.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    return body === undefined || stored.get(key)?.deletedAt !== null || !sameJson(parseJson(body), value);
  });
  return { ...found, updates: changed, unchanged: found.unchanged + found.updates.length - changed.length };
}

function pageRows(
  context: LoaderContext,
  shape: ResourceShape,
  rows: PageCommit['rows'],
  written: readonly KeyedRecord[],
  requestedAt: string,
): Omit<PageCommit, 'statements'> {
  return {
    lease: context.lease(),
    resource: context.resource,
    history: context.profile.history,
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

function rejectStatement(context: LoaderContext, reject: SetAside, seenAt: string): CompiledQuery {
  const { resource, runId, warehouse } = context;
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

/** Also a record that says nothing new was there at that moment. */
function noteMet(watch: Map<string, number>, records: readonly KeyedRecord[], requestedAt: number): void {
  for (const { key } of records) {
    const before = watch.get(key);
    if (before !== undefined && before < requestedAt) watch.set(key, requestedAt);
  }
}

function keyOf(record: { key: string }): string {
  return record.key;
}

function updatedTimes(records: readonly KeyedRecord[]): Updated[] {
  return records.flatMap((record) => (record.updated === null ? [] : [record.updated]));
}
