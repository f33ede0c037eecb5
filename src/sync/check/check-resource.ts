import { credentialFinding } from '../../checks/credential.ts';
import { filterFinding } from '../../checks/filter.ts';
import { itemFinding } from '../../checks/item.ts';
import {
  type CheckFinding,
  failure,
  listingWalk,
  type RequestContext,
  samplePartition,
} from '../../checks/listing-walk.ts';
import {
  clockFinding,
  describedFields,
  fieldFindings,
  listingFinding,
  pageSizeFindings,
  requestAsOthers,
  requestBare,
} from '../../checks/listing.ts';
import { orderFinding } from '../../checks/order.ts';
import { timesFindings } from '../../checks/times.ts';
import type { Profile, Relations } from '../../config/profile/profile.ts';
import type { TableAccess } from '../../database/reading.ts';
import { resolveRelations, unresolved } from '../../load/grow-views.ts';
import type { ResourceShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { Page } from '../../pagination/page.ts';
import { walk, type WalkOptions } from '../../pagination/walk.ts';
import { sampleQuery, windowsFinding } from './windows.ts';

/**
 * Tests what the profile assumes of one resource with about ten requests: its listing and a second page, the filter,
 * several records alone, and what another credential gets. `credential`: whether the identity path was seen to answer
 * this one only, or none is sent. Never throws for what the service does, except when interrupted.
 */
export async function checkResource(
  asked: RequestContext,
  resources: Profile['resources'],
  credential: 'identified' | 'unproved' | 'none',
): Promise<CheckFinding[]> {
  const { profile, signal } = asked;
  const pages: Page[] = [];
  let context = asked;
  const walked = await tested('listing', signal, async () => {
    if (profile.partitions !== null) context = { ...asked, partition: await samplePartition(asked, resources) };
    if (profile.partitions !== null && context.partition === null) return NO_PARENT;
    for await (const page of twoPages(context)) pages.push(page);
    const isEmpty = pages[0]?.records.length === 0;
    return listingFinding(pages, profile, isEmpty ? await requestBare(context, sampleQuery(context)) : undefined);
  });
  const [first] = pages;
  if (first === undefined) return [walked];
  const values = first.records.map(({ value }) => value);
  const findings = [
    walked,
    ...pageSizeFindings(pages, profile),
    ...fieldFindings(first.records, profile),
    clockFinding(first, context.clock),
    ...timesFindings(values, first.serverDate, profile),
    ...describedFields(first.records, profile),
  ];
  if (profile.incremental !== null) {
    const { incremental } = profile;
    const isSorted = incremental.mode === 'newest_first';
    const finding = () => (isSorted ? orderFinding(context, first) : filterFinding(context, first, incremental));
    findings.push(await tested('filter', signal, finding));
  }
  const { windows } = profile;
  if (windows !== null) findings.push(await tested('windows', signal, () => windowsFinding(context, windows)));
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await tested('item', signal, () => itemFinding(context, first.records, item)));
  }
  if (credential !== 'none') {
    const isIdentified = credential === 'identified';
    const finding = async () => credentialFinding(await requestAsOthers(context, first), isIdentified);
    findings.push(await tested('credential', signal, finding));
  }
  return findings;
}

/** The first page and the one after it. Where the walk is cut short, it has no end, but its numbers are tried. */
async function* twoPages(context: RequestContext): AsyncGenerator<Page> {
  const asked = { ...listingWalk(context, 'incremental', sampleQuery(context)), numbering: { isProved: false } };
  let pages = 0;
  let isCut = false;
  const isEnough: WalkOptions['isEnough'] = () => (page) => (isCut = (pages += 1) === 2 && page.next !== null);
  for await (const page of walk({ ...asked, isEnough })) yield isCut ? { ...page, end: null } : page;
}

const NO_PARENT: CheckFinding = {
  check: 'listing',
  status: 'warn',
  detail: 'the service lists no record of the parent, so there is no listing to ask for',
};

/** Runs one test; what it throws becomes its finding. */
async function tested(check: string, signal: AbortSignal, test: () => Promise<CheckFinding>): Promise<CheckFinding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    return failure(check, error);
  }
}

/**
 * Whether the columns of the profile's relations are there, and how many of their references lead to no live record.
 * Nothing before anything was copied.
 */
export async function relationFindings(
  reader: TableAccess,
  shapes: readonly ResourceShape[],
  relations: Relations,
): Promise<CheckFinding[]> {
  if (shapes.length === 0) return [];
  const found: CheckFinding[] = [];
  for (const [source, target] of Object.entries(relations)) {
    const name = `${source} → ${target}`;
    const [relation] = resolveRelations({ [source]: target }, shapes);
    if (relation === undefined) {
      const detail = `${name} is left out: ${unresolved(source, target, shapes)}`;
      found.push({ check: 'relation', status: 'warn', detail, hint: LEFT_OUT });
      continue;
    }
    const { from, to } = relation;
    const counted = await reader.rows.dangling({
      table: from.table.name,
      column: from.column,
      isMarked: from.table.path.length === 0,
      target: { table: to.table.name, key: to.column },
    });
    found.push(danglingFinding(name, counted));
  }
  return found;
}

const LEFT_OUT =
  'a column comes with its first value, and a list with its first element; where it never will, correct the relation in the profile, or set it to null';

function danglingFinding(
  name: string,
  { references, dangling, example }: Awaited<ReturnType<TableAccess['rows']['dangling']>>,
): CheckFinding {
  if (dangling === 0)
    return { check: 'relation', status: 'ok', detail: `${name}: all ${references} references lead to a record` };
  const detail = `${name}: ${dangling} of ${references} references lead to no live record, such as ${visibleText(example ?? '')}`;
  const hint =
    dangling === references
      ? 'they may be keys of something else: correct the relation in the profile'
      : 'their records are deleted, or not to be seen by this credential; joins leave these rows out';
  return { check: 'relation', status: 'warn', detail, hint };
}
