import type { CompiledQuery } from 'kysely';
import { readTables } from '../database/state/catalog.ts';
import { resolveRejects, restoreDeletes, saveRejects } from '../database/state/stored-rows.ts';
import { saveSourceTexts } from '../database/state/versions.ts';
import type { ResourceShape, TableRows } from '../model/table.ts';
import { shapeChanges, withReferencesAsText } from '../rows/evolve-shape.ts';
import { textHash } from '../rows/records/record-key.ts';
import { initialShape, type ShapedPage } from '../rows/shape-page.ts';
import { finishReshape, fixColumns, growTables, shapeAndGrow } from './grow-shape.ts';
import { coverRows } from './grow-views.ts';
import type { KeyConflicts, KeyedRecord, RejectedRecord } from './key-records.ts';
import type { LoadContext } from './load-context.ts';
import { keyOf, type LoadablePage, type ExcludedRow, type OlderPolicy, pageRows, type PreparedPage, preparePage, shapeOf } from './prepare-page.ts';

// Loads the pages of one resource: compares, shapes, grows the tables, and commits one transaction per page.

/** A record's key and the service's own time of change: its text, and epoch milliseconds. */
export interface DatedKey {
  key: string;
  text: string;
  at: number;
}

/** A page about to be committed: what moving the checkpoint and finding delete candidates needs. */
export interface PageFacts {
  records: number;
  keys: readonly string[];
  /** Records without a usable id. */
  unkeyed: number;
  /** The service's own times of the page's records, of those that have one. */
  updated: readonly DatedKey[];
  /** Records in a state older than their row, which was not accepted. */
  older: readonly KeyedRecord[];
  /** Keys of records that the profile's filter leaves out; their times are among `updated`. */
  leftOut: readonly string[];
  /** Those of them that have a live row. */
  lost: readonly ExcludedRow[];
  /** Live rows of which the page holds the tombstone, and the service's own time of the delete. */
  stated: readonly ReportedDelete[];
  /** The records that become rows, or change theirs. */
  written: readonly KeyedRecord[];
  /** Their rows, and the tables as they were before the page. */
  rows: readonly TableRows[];
  shapeBefore: ResourceShape;
}

/** A record that says of itself that it is deleted. */
export interface ReportedDelete {
  key: string;
  /** UTC text of our tables; null if the service names no time. */
  at: string | null;
}

/** Turns pages of one resource into committed rows. */
export interface PageLoader {
  /** Loads one page in one transaction. Throws `SyncError`; then nothing of the page was written. */
  load(page: LoadablePage, statements: PageStatements): Promise<PageOutcome>;
}

/**
 * Returns the statements to commit together with a page: checkpoint, counters of the run, delete candidates. It may read
 * rows for that, which no other process writes meanwhile. If it throws, nothing of the page is written.
 */
type PageStatements = (facts: PageFacts, outcome: PageOutcome) => CompiledQuery[] | Promise<CompiledQuery[]>;

/** Creates the resource's table, empty, if it does not exist yet, so that a query finds it from the first run on. */
export async function openPageLoader(context: LoadContext, policy: OlderPolicy): Promise<PageLoader> {
  const { owned } = context;
  await owned.takeTurn(() => openTables(context));
  return { load: (page, statements) => owned.takeTurn(() => loadPage(context, policy, page, statements)) };
}

async function openTables(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile } = context;
  const { resource } = owned;
  const known = owned.shape ?? (await readTables(warehouse, resource));
  const wanted = withReferencesAsText(known ?? initialShape(resource, profile), profile);
  owned.shape = known;
  if (known === null) await growTables(context, null, wanted, []);
  else if (wanted !== known) {
    const grown = growTables(context, known, wanted, shapeChanges(known, wanted));
    // References stay numbers while external objects depend on them.
    await grown.catch((error: unknown) => fixColumns(context, known, error));
  }
  await finishReshape(context);
}

/** Compares a page with the warehouse, shapes what is new or changed, grows the tables if needed, and commits. */
async function loadPage(
  context: LoadContext,
  policy: OlderPolicy,
  page: LoadablePage,
  statements: PageStatements,
): Promise<PageOutcome> {
  const { warehouse, owned } = context;
  const { own } = warehouse;
  const shapeBefore = shapeOf(owned);
  const prepared = await preparePage(context, policy, shapeBefore, page);
  const { keyed, tombstones, found, fresh, lost } = prepared;
  const requestedAt = found.stampedAt;
  const shaped = await shapeIntoTables(context, fresh);
  const rejectedAt = new Set(shaped.rejects.map(({ index }) => index));
  const written = rejectedAt.size === 0 ? fresh : fresh.filter((_, index) => !rejectedAt.has(index));
  const unfit = shaped.rejects.map(({ index, reason, detail }) => {
    const { key = null, bytes = Buffer.alloc(0) } = fresh[index] ?? {};
    return { key, reason, detail, bytes };
  });
  const rejects = [...prepared.rejects, ...unfit];

  const outcome = toOutcome(prepared, shaped, rejects.length);
  const facts = {
    records: page.records.length,
    keys: keyed.map(keyOf),
    unkeyed: prepared.rejects.length,
    updated: datedKeys(prepared),
    older: found.older,
    leftOut: prepared.leftOut.map(keyOf),
    lost,
    stated: found.stated.map(({ key }) => ({ key, at: tombstones.get(key)?.at ?? null })),
    written,
    rows: shaped.rows,
    shapeBefore,
  };
  const together = await statements(facts, outcome);
  await coverRows(context, shaped.rows);
  const resolved = owned.openRejects + rejects.length > 0 ? [...written.map(keyOf), ...tombstones.keys()] : [];
  const writtenKeys = new Set(found.restored.length === 0 ? [] : written.map(keyOf));
  const restored = found.restored.filter((key) => writtenKeys.has(key));
  await warehouse.commit({
    rows: pageRows(context, shaped.rows, written, requestedAt),
    lease: owned.lease(),
    statements: [
      ...resolveRejects(own, owned.resource, resolved, requestedAt),
      ...restoreDeletes(own, owned.resource, restored, requestedAt),
      ...rejectStatements(context, rejects, requestedAt),
      ...sourceTexts(context, written),
      ...together,
    ],
  });
  owned.openRejects += rejects.length;
  for (const watched of owned.watches) {
    for (const { key } of keyed) {
      const before = tombstones.has(key) ? undefined : watched.get(key);
      // A watched record was listed, also if it says nothing new.
      if (before !== undefined && before < page.requestedAt) watched.set(key, page.requestedAt);
    }
  }
  return outcome;
}

/** The records as rows of tables that have grown to hold them. */
export async function shapeIntoTables(context: LoadContext, records: readonly KeyedRecord[]): Promise<ShapedPage> {
  const shaped = await shapeAndGrow(context, records);
  if (!shaped.grown) return shaped;
  await finishReshape(context);
  // Stored bodies may have made further columns.
  return context.owned.shape === shaped.shape ? shaped : shapeAndGrow(context, records);
}

/** Runs for each record of each page, so it makes nothing but its result. */
function datedKeys({ keyed, leftOut }: PreparedPage): DatedKey[] {
  const dated: DatedKey[] = [];
  for (const list of [keyed, leftOut])
    for (const { key, updated } of list) if (updated !== null) dated.push({ key, text: updated.text, at: updated.at });
  return dated;
}

/** The changes of one page to the warehouse, as counts. */
export interface PageOutcome {
  /** Without those that the profile's filter leaves out. */
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  /** For any reason. */
  rejected: number;
  /** Records that were dropped because a user has erased them; absent for none. */
  forgotten?: number;
  /** Records that share a key with another record of the page. */
  conflicts: KeyConflicts;
  /** Keys of rows of which the same scan has shown an older state before; absent for none. */
  overwritten?: readonly string[];
  /** Fields that change with every response, as it seems; absent for none. */
  volatile?: readonly string[];
  /** A time of change that was cut to milliseconds; absent for none. */
  cutTime?: string;
  /** Rows that an older state of the record replaced. */
  wentBack: number;
  /** Values that went into `_overflow`, were left out by the contract, or were repaired for their column. */
  overflowed: number;
  discarded: number;
  repaired: number;
}

function toOutcome(
  { found, conflicts, taken: records, forgotten }: PreparedPage,
  { rejects, overflowed, discarded, repaired }: ShapedPage,
  rejected: number,
): PageOutcome {
  const rejectedInserts = rejects.filter(({ index }) => index < found.inserts.length).length;
  const inserted = found.inserts.length - rejectedInserts;
  const updated = found.updates.length - (rejects.length - rejectedInserts);
  // The others are records without any change, and copies on the same page that say the same.
  const unchanged = records - inserted - updated - rejected - conflicts.older - conflicts.undecided;
  const { overwritten, volatile = [], cutTime = null, wentBack } = found;
  const rows = { records, inserted, updated, unchanged, rejected, wentBack };
  return {
    ...rows,
    conflicts,
    overflowed,
    discarded,
    repaired,
    ...(forgotten === 0 ? {} : { forgotten }),
    ...(overwritten.length === 0 ? {} : { overwritten }),
    ...(volatile.length === 0 ? {} : { volatile }),
    ...(cutTime === null ? {} : { cutTime }),
  };
}

function rejectStatements({ warehouse, owned, runId }: LoadContext, rejects: readonly RejectedRecord[], at: string) {
  const { resource } = owned;
  const stored = rejects.map(({ key, reason, detail, bytes }) => {
    return { resource, hash: textHash(bytes), reason, record_id: key, detail, body: bytes.toString(), run_id: runId };
  });
  return saveRejects(warehouse.own, stored, at);
}

/**
 * The statements that store what the service sent for records with hidden fields, if the profile wants it. They run
 * after those that write the versions.
 */
export function sourceTexts(
  { warehouse, owned, profile }: LoadContext,
  written: readonly KeyedRecord[],
): CompiledQuery[] {
  if (profile.source_text !== 'kept' || profile.history === 'none') return [];
  const texts = written.flatMap(({ key, asSent }) =>
    asSent === undefined ? [] : [{ id: key, text: asSent.toString() }],
  );
  return saveSourceTexts(warehouse.own, owned.resource, texts);
}
