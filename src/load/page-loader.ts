// Loads the pages of one resource (`openPageLoader`). `loadPage` is the procedure: it compares the records with the stored
// rows, turns new and changed ones into rows, grows the tables if necessary, and commits everything in one transaction.
import type { CompiledQuery } from 'kysely';
import { readTables } from '../database/state/catalog.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import { resolveRejects, restoreDeletes, saveRejects } from '../database/state/stored-rows.ts';
import type { ReportedDelete } from '../database/state/suspects.ts';
import { saveSourceTexts } from '../database/state/versions.ts';
import type { TableRows } from '../model/table.ts';
import { shapeChanges, withReferencesAsText } from '../rows/evolve-shape.ts';
import { textHash } from '../rows/records/record-key.ts';
import { initialShape, type ShapedPage } from '../rows/shape-page.ts';
import { finishReshape, fixColumns, growTables, shapeAndGrow } from './grow-shape.ts';
import { growCalendarForRows } from './grow-views.ts';
import type { KeyConflicts, KeyedRecord, RejectedRecord } from './key-records.ts';
import type { LoadContext } from './load-context.ts';
import {
  type ExcludedRow,
  keyOf,
  type LoadablePage,
  type OlderPolicy,
  pageRows,
  type PreparedPage,
  preparePage,
  shapeOf,
} from './prepare-page.ts';

/** A record's key and the service's own time of change: its text, and epoch milliseconds. */
export interface DatedKey {
  key: string;
  text: string;
  at: number;
}

/** Facts of a page about to be committed, for the checkpoint and for delete candidates. */
export interface PageFacts {
  records: number;
  keys: readonly string[];
  /** Number of records without a usable id, which are rejected. */
  unkeyed: number;
  /** Times of change of the records that have one. */
  updated: readonly DatedKey[];
  /** Records in a state older than their row, which was not accepted. */
  older: readonly KeyedRecord[];
  /** Keys of records that the profile's filter excludes; their times are among `updated`. */
  filteredOut: readonly string[];
  /** The live rows of records in `filteredOut`. */
  excludedRows: readonly ExcludedRow[];
  /** Live rows whose tombstones the page has. */
  tombstoned: readonly ReportedDelete[];
  /** New and changed records. */
  written: readonly KeyedRecord[];
  /** The rows of `written`. */
  rows: readonly TableRows[];
}

export interface PageLoader {
  /** Loads one page in one transaction. Throws `SyncError`; then nothing of the page was written. */
  load(page: LoadablePage, statements: PageStatements): Promise<PageOutcome>;
}

/**
 * Returns the statements to commit together with a page: checkpoint, counters of the run, delete candidates. No other
 * process writes rows meanwhile. If it throws, nothing of the page is written.
 */
type PageStatements = (facts: PageFacts, outcome: PageOutcome) => CompiledQuery[] | Promise<CompiledQuery[]>;

/** Opens the loader. Creates the resource's table if it is missing, so that queries find it from the first run on. */
export async function openPageLoader(context: LoadContext, policy: OlderPolicy): Promise<PageLoader> {
  const { owned } = context;
  await owned.runAlone(() => openTables(context));
  return { load: (page, statements) => owned.runAlone(() => loadPage(context, policy, page, statements)) };
}

/** Reads the tables or creates them, and finishes an interrupted rewrite of rows. References get the type of keys. */
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
  const { keyed, tombstones, difference } = prepared;
  const shaped = await shapeIntoTables(context, prepared.toWrite);
  const { written, rejects } = separateRejects(prepared, shaped);
  const outcome = toOutcome(prepared, shaped, rejects.length);
  const facts: PageFacts = {
    records: page.records.length,
    keys: keyed.map(keyOf),
    unkeyed: prepared.rejects.length,
    updated: [...keyed, ...prepared.filteredOut].flatMap(({ key, updated }) =>
      updated === null ? [] : [{ key, text: updated.text, at: updated.at }],
    ),
    older: difference.older,
    filteredOut: prepared.filteredOut.map(keyOf),
    excludedRows: prepared.excludedRows,
    tombstoned: difference.tombstoned.map(({ key }) => ({ key, at: tombstones.get(key)?.at ?? null })),
    written,
    rows: shaped.rows,
  };
  const callerStatements = await statements(facts, outcome);
  await growCalendarForRows(context, shaped.rows);
  const requestedAt = difference.stampedAt;
  const writtenKeys = new Set(written.map(keyOf));
  // Rejects of these records that are stored are resolved now. Nothing is searched while none are stored.
  const resolved = owned.openRejects + rejects.length > 0 ? [...writtenKeys, ...tombstones.keys()] : [];
  const restored = difference.restored.filter((key) => writtenKeys.has(key));
  await warehouse.commit({
    rows: pageRows(context, shaped.rows, written, requestedAt),
    lease: owned.lease(),
    statements: [
      ...resolveRejects(own, owned.resource, resolved, requestedAt),
      ...restoreDeletes(own, owned.resource, restored, requestedAt),
      ...rejectStatements(context, rejects, requestedAt),
      ...sourceTexts(context, written),
      ...callerStatements,
    ],
  });
  owned.openRejects += rejects.length;
  noteListedKeys(owned, prepared, page.requestedAt);
  return outcome;
}

/** Separates the records that are written from those that do not fit the tables, and lists all rejects of the page. */
function separateRejects(
  { toWrite, rejects }: PreparedPage,
  shaped: ShapedPage,
): { written: readonly KeyedRecord[]; rejects: RejectedRecord[] } {
  const reasons = new Map(shaped.rejects.map((reject) => [reject.index, reject]));
  const unfit = toWrite.flatMap(({ key, bytes }, index): RejectedRecord[] => {
    const found = reasons.get(index);
    return found === undefined ? [] : [{ key, reason: found.reason, detail: found.detail, bytes }];
  });
  return { written: toWrite.filter((_, index) => !reasons.has(index)), rejects: [...rejects, ...unfit] };
}

/** Notes when a page listed records that another part of the run is fetching from the service one by one (`watches`). */
function noteListedKeys({ watches }: OwnedResource, { keyed, tombstones }: PreparedPage, requestedAt: number): void {
  for (const watched of watches) {
    for (const { key } of keyed) {
      const before = tombstones.has(key) ? undefined : watched.get(key);
      if (before !== undefined && before < requestedAt) watched.set(key, requestedAt);
    }
  }
}

/** Shapes records into rows, after the tables have grown and stored rows were rewritten if that is necessary. */
async function shapeIntoTables(context: LoadContext, records: readonly KeyedRecord[]): Promise<ShapedPage> {
  const shaped = await shapeAndGrow(context, records);
  if (!shaped.grown) return shaped;
  await finishReshape(context);
  // The rewritten bodies may have added columns.
  return context.owned.shape === shaped.shape ? shaped : shapeAndGrow(context, records);
}

/** The changes of one page to the warehouse, as counts. */
export interface PageOutcome {
  /** Records that pass the profile's filter. */
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  rejected: number;
  /** Records that were dropped because an operator had them erased. */
  forgotten: number;
  /** Records that share a key with another record of the page. */
  conflicts: KeyConflicts;
  /** As in `Difference`. */
  overwritten: readonly string[];
  /** As in `PreparedPage`. */
  volatile: readonly string[];
  cutTime: string | null;
  /** Rows that an older state of the record replaced. */
  wentBack: number;
  /** Values that went into `_overflow`, were left out by the contract, or were repaired for their column. */
  overflowed: number;
  discarded: number;
  repaired: number;
}

function toOutcome(prepared: PreparedPage, shaped: ShapedPage, rejected: number): PageOutcome {
  const { difference, conflicts, passing: records, forgotten, volatile, cutTime } = prepared;
  const { overwritten, wentBack } = difference;
  const { rejects, overflowed, discarded, repaired } = shaped;
  const rejectedInserts = rejects.filter(({ index }) => index < difference.inserts.length).length;
  const inserted = difference.inserts.length - rejectedInserts;
  const updated = difference.updates.length - (rejects.length - rejectedInserts);
  // The rest: records without a change, and copies on the same page with the same content.
  const unchanged = records - inserted - updated - rejected - conflicts.older - conflicts.undecided;
  const counts = { records, inserted, updated, unchanged, rejected, forgotten, wentBack };
  return { ...counts, conflicts, overwritten, volatile, cutTime, overflowed, discarded, repaired };
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
function sourceTexts({ warehouse, owned, profile }: LoadContext, written: readonly KeyedRecord[]): CompiledQuery[] {
  if (profile.source_text !== 'kept' || profile.history === 'none') return [];
  const texts = written.flatMap(({ key, asSent }) =>
    asSent === undefined ? [] : [{ id: key, text: asSent.toString() }],
  );
  return saveSourceTexts(warehouse.own, owned.resource, texts);
}
