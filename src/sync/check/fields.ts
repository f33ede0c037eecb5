import type { SourceRecord } from '../../model/json.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckFinding } from './finding.ts';

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
  return profile.updated === null ? fields : [...fields, updatedFinding(records, profile, profile.updated)];
}

function updatedFinding(records: readonly SourceRecord[], profile: ResourceProfile, path: string): CheckFinding {
  const readable = records.filter(({ value }) => {
    const field = fieldAt(value, path);
    return (typeof field === 'string' || typeof field === 'number') && parseInstant(field) !== null;
  }).length;
  const detail = `${path} is a time in ${readable} of ${records.length} records`;
  if (readable === records.length) return { check: 'updated', status: 'ok', detail };
  const without = `${detail}; the fields are ${namesIn(records[0])}`;
  const other = 'if another field holds the time of change, name it as `updated`';
  if (profile.incremental === null) {
    return {
      check: 'updated',
      status: 'warn',
      detail: without,
      hint: `a change is then known by the body alone; ${other}`,
    };
  }
  return {
    check: 'updated',
    status: profile.accept.includes('filter') ? 'warn' : 'fail',
    detail: `${without}; ${records.length - readable} of them can never be found by ${profile.incremental.param}`,
    hint: `${other}; else set \`incremental: null\`: as long as such records are there, every sync walks fully`,
  };
}

function namesIn(record: SourceRecord | undefined): string {
  const value = record?.value;
  return typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : 'none';
}
