import type { Page } from '../../extract/page.ts';
import { listingStart } from '../../extract/page-styles/listing-request.ts';
import { openPageStyle } from '../../extract/page-styles/page-styles.ts';
import { positionOf } from '../../extract/page-styles/position.ts';
import { walk } from '../../extract/walk.ts';
import { dropForgotten } from '../../load/drop-forgotten.ts';
import { keyRecords } from '../../load/key-records.ts';
import { SyncError } from '../../model/errors.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import { filterQuery, listingWalk } from '../../checks/listing-walk.ts';
import { windowsOf } from '../walk/windows.ts';
import type { SampleAccount } from './certificate.ts';
import { judged, type Judgement } from './judge-suspects.ts';
import { CONFIDENCE, Drawing, seededRandom, upperBound } from './sample-bound.ts';
import { settledWindows } from './listed-pages.ts';
import { storedRows } from './spelled-rows.ts';
import type { VerifyContext } from './verify-context.ts';

export interface SampleRequest {
  /** Records or pages to draw. */
  count: number;
  seed: number;
}

/**
 * Draws live rows of the copy and reads each alone at the service; draws pages of the listing where records cannot be read
 * alone. Throws `sample_impossible` where neither can be.
 */
export async function verifySample(context: VerifyContext, request: SampleRequest): Promise<SampleAccount> {
  const { item, windows } = context.profile;
  if (windows !== null) return sampleWindows(context, windows, request);
  return item === null ? samplePages(context, request) : sampleRecords(context, request);
}

async function sampleWindows(
  context: VerifyContext,
  windows: ReportWindows,
  { count, seed }: SampleRequest,
): Promise<SampleAccount> {
  const { findings, signal } = context;
  const settled = await settledWindows(context, windows);
  const drawing = new Drawing<string>(count, seededRandom(seed));
  for (const start of settled.keys()) drawing.offer(start);
  findings.checks.push('records of the windows that were drawn are those of the copy, with their child rows');
  findings.notCompared.push('rows of windows that were not drawn, and of those that may still change');
  let differ = 0;
  for (const start of drawing.chosen) {
    let differs = false;
    for await (const page of settled.get(start)?.() ?? []) {
      if (await differsOnPage(context, page)) differs = true;
      page.release();
      signal.throwIfAborted();
    }
    if (differs) differ += 1;
  }
  const drawn = drawing.chosen.length;
  return { asked: count, drawn, unit: 'window', seed, differ, ...boundOf(drawn, differ, drawing.seen) };
}

async function sampleRecords(context: VerifyContext, { count, seed }: SampleRequest): Promise<SampleAccount> {
  const { findings } = context;
  const drawing = new Drawing<string>(count, seededRandom(seed));
  await eachLiveKey(context, (key) => drawing.offer(key));
  findings.checks.push('live rows that were drawn, with their child rows and bodies, are what the service has');
  findings.notCompared.push('records that the copy has not: only rows were drawn', 'rows that were not drawn');
  const suspects = drawing.chosen.map((key) => ({ key, suspicion: 'drawn' }) as const);
  let [told, differ] = [0, 0];
  for await (const { key, judgement } of judged(context, suspects)) {
    findings.compared.records += 1;
    if (noted(context, key, judgement)) told += 1;
    if (typeof judgement === 'object') differ += 1;
  }
  const unit = { asked: count, drawn: drawing.chosen.length, unit: 'record', seed, differ } as const;
  return { ...unit, ...boundOf(told, differ, drawing.seen) };
}

/** Adds what was found; false if nothing can be said of it. */
function noted({ findings }: VerifyContext, key: string, judgement: Judgement): boolean {
  if (judgement === 'unjudged') findings.notJudged += 1;
  else if (judgement === 'since') findings.changedSince(key);
  else if (judgement === 'aside') findings.setAside += 1;
  else if (judgement !== 'equal') findings.add(judgement);
  return judgement !== 'unjudged';
}

function boundOf(
  told: number,
  differ: number,
  units: number,
): Pick<SampleAccount, 'at_most_percent' | 'confidence_percent'> {
  const share = told === 0 && units > 0 ? null : upperBound(told, differ, units);
  const percent = share === null ? null : Math.ceil(share * 10_000) / 100;
  return { at_most_percent: percent, confidence_percent: CONFIDENCE * 100 };
}

async function eachLiveKey({ warehouse, shape, signal }: VerifyContext, use: (key: string) => void): Promise<void> {
  const [table] = shape.tables;
  if (table === undefined) return;
  const snapshot = await warehouse.snapshot();
  const bare = { ...shape, tables: [{ ...table, columns: [] }] };
  try {
    for await (const { key, own } of storedRows(snapshot, bare, 0, {}, ['_deleted_at'])) {
      if (own[0] === null) use(key);
      signal.throwIfAborted();
    }
  } finally {
    await snapshot.close();
  }
}

async function samplePages(context: VerifyContext, { count, seed }: SampleRequest): Promise<SampleAccount> {
  const { profile, findings, signal } = context;
  const first = await pageAt(context, null);
  const size = first?.records.length ?? 0;
  const pages = first === null || first.next === null ? 1 : Math.ceil((first.total ?? 0) / Math.max(1, size));
  if (first === null || (first.next !== null && (first.total === null || !(await isAddressed(context)))))
    throw impossible(profile.path);
  const drawing = new Drawing<number>(count, seededRandom(seed));
  for (let page = 0; page < pages; page += 1) drawing.offer(page);
  findings.checks.push('records of the pages that were drawn are those of the copy, with their child rows');
  findings.notCompared.push('rows whose records are on no page that was drawn');
  let differ = 0;
  for (const index of drawing.chosen) {
    signal.throwIfAborted();
    const page = index === 0 ? first : await pageAt(context, addressOf(context, index * size));
    if (page !== null && (await differsOnPage(context, page))) differ += 1;
  }
  const drawn = drawing.chosen.length;
  return { asked: count, drawn, unit: 'page', seed, differ, ...boundOf(drawn, differ, pages) };
}

async function isAddressed(context: VerifyContext): Promise<boolean> {
  const { profile } = context;
  if (profile.partitions !== null || (await windowsOf(context, { walk_since: null })) !== null) return false;
  return openPageStyle(profile.page).ahead !== null;
}

/** The place of the page that holds the record of this index. */
function addressOf(context: VerifyContext, record: number): string {
  const { profile, listing } = context;
  const style = openPageStyle(profile.page);
  const { values = {}, extraQuery = {} } = filterQuery(profile, null);
  const parts = { target: listing, templates: profile, values };
  const start = listingStart(parts, { ...extraQuery, ...style.first });
  const url = style.ahead?.holding(start, record, profile.page.size) ?? null;
  if (url === null) throw impossible(profile.path);
  return positionOf(url);
}

async function pageAt(context: VerifyContext, from: string | null): Promise<Page | null> {
  const options = { ...listingWalk(context, 'bulk', filterQuery(context.profile, null)), acceptsEnd: true };
  for await (const page of walk({ ...options, from, pagesBefore: from === null ? 0 : 1 })) {
    if (from === null || page.position === from) return page;
  }
  return null;
}

async function differsOnPage(context: VerifyContext, page: Page): Promise<boolean> {
  const { profile, findings } = context;
  const { records } = dropForgotten(page.records, profile, context.owned.forgotten);
  const { keyed, setAside } = keyRecords(records, profile);
  const live = keyed.filter(({ value }) => tombstoneOf(value, profile) === null);
  findings.setAside += setAside.length;
  const suspects = live.map(({ key }) => ({ key, suspicion: 'drawn' }) as const);
  const readings = new Map(live.map((record) => [record.key, record]));
  let differs = false;
  for await (const { key, judgement } of judged(context, suspects, readings)) {
    findings.compared.records += 1;
    noted(context, key, judgement);
    differs ||= typeof judgement === 'object';
  }
  return differs;
}

function impossible(path: string): SyncError {
  return new SyncError(
    'sample_impossible',
    `nothing can be drawn of ${path}: its records cannot be read alone, and its pages not out of order`,
    {
      recovery: 'stop',
      hint: 'compare all of it: the same command without --sample',
    },
  );
}
