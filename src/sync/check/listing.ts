import type { Page } from '../../extract/page.ts';
import type { Clock } from '../../model/clock.ts';
import type { SourceRecord } from '../../model/json.ts';
import { updatedPaths, updatedTime } from '../../shape/columns/updated-time.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import { filterName } from '../../source/filter-places.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckFinding } from './finding.ts';

/** Whether the listing can be read and its end be known, from its first page and the one after it. */
export function listingFinding(pages: readonly Page[], profile: ResourceProfile): CheckFinding {
  const [first, second] = pages;
  const told = first?.total ?? null;
  const total = told === null ? '' : `, ${told} in all by the service's word`;
  const count = first?.records.length ?? 0;
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${total}`;
  if (count === 0) {
    const hint = 'an empty listing proves nothing: check that the credential may see this resource';
    return { check: 'listing', status: 'warn', detail, hint };
  }
  const [doubt] = pages.at(-1)?.end?.doubts ?? [];
  if (doubt === undefined) return { check: 'listing', status: 'ok', detail };
  const status = profile.accept.includes('end') ? 'warn' : 'fail';
  return { check: 'listing', status, detail: `${detail}; ${doubt.message}`, hint: doubt.hint };
}

/** Whether pages come as large as they were asked for. */
export function pageSizeFindings(
  [first]: readonly Page[],
  { page: { size, size_param } }: ResourceProfile,
): CheckFinding[] {
  const came = first?.records.length ?? 0;
  const goesOn = first !== undefined && first.next !== null;
  if (size_param === null || came === 0 || (goesOn ? came === size : came <= size)) return [];
  const detail = `${size} records were asked for with ${size_param}, and the first page held ${came}`;
  const hint =
    'set page.size to what the service gives, and page.size_param to the parameter that it reads (null for none)';
  return [{ check: 'page size', status: 'warn', detail, hint }];
}

/** Whether the records have the id and the time of change that the profile names. */
export function fieldFindings(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding[] {
  if (records.length === 0) return [];
  const keys = records.map((record) => recordKey(record.value, profile.id));
  const bad = keys.find((key) => 'reject' in key);
  const distinct = new Set(keys.map((key) => ('key' in key ? key.key : key)));
  const idName = [profile.id].flat().join(', ');
  const fields: CheckFinding[] = [];
  if (bad !== undefined && 'reject' in bad) {
    const hint = `the fields there are: ${namesIn(records[0])}; name the right one as \`id\` in the profile`;
    fields.push({ check: 'id', status: 'fail', detail: bad.reject.detail, hint });
  } else if (distinct.size < records.length) {
    const hint = 'records that share an id become one row: name the fields that tell them apart as `id`';
    fields.push({ check: 'id', status: 'fail', detail: `${idName} repeats within a page`, hint });
  } else {
    fields.push({ check: 'id', status: 'ok', detail: `${idName} is there and unique on the page` });
  }
  return profile.updated === null ? fields : [...fields, updatedFinding(records, profile)];
}

function updatedFinding(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding {
  const readable = records.filter(({ value }) => updatedTime(value, profile) !== null).length;
  const detail = `${updatedPaths(profile).join(', else ')} is a time in ${readable} of ${records.length} records`;
  if (readable === records.length) return { check: 'updated', status: 'ok', detail };
  const without = `${detail}; the fields are ${namesIn(records[0])}`;
  const other = 'if another field holds the time of change, name it as `updated`';
  if (profile.incremental === null) {
    const hint = `a change is then known by the body alone; ${other}`;
    return { check: 'updated', status: 'warn', detail: without, hint };
  }
  return {
    check: 'updated',
    status: profile.accept.includes('filter') ? 'warn' : 'fail',
    detail: `${without}; ${records.length - readable} of them can never be found by ${filterName(profile.incremental)}`,
    hint: `${other}; else set \`incremental: null\`: as long as such records are there, every sync walks fully`,
  };
}

function namesIn(record: SourceRecord | undefined): string {
  const value = record?.value;
  return typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : 'none';
}

/** Beyond this the service's clock and ours differ by more than a slow answer explains. */
const CLOCK_SKEW_MS = 30_000;

/** Whether the service's clock, by the answer's `Date`, agrees with ours. */
export function clockFinding(page: Page, clock: Clock): CheckFinding {
  if (page.serverDate === null) {
    const detail = "the answers have no Date within a day of this machine's clock, so the service's is not known";
    return { check: 'clock', status: 'warn', detail, hint: "see that this machine's clock is right" };
  }
  const skew = Math.round((page.serverDate - clock.now()) / 1_000);
  if (Math.abs(skew) * 1_000 <= CLOCK_SKEW_MS)
    return { check: 'clock', status: 'ok', detail: `within ${Math.abs(skew) + 1} s` };
  const detail = `the service's clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine's`;
  return {
    check: 'clock',
    status: 'warn',
    detail,
    hint: "cursors follow the service's clock, so nothing is lost by it",
  };
}
