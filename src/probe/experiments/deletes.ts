import { fieldAt } from '../../shape/records/field-at.ts';
import { valuesAt, fieldPaths } from './records.ts';
import type { Subject } from '../stage.ts';

const SAYS_DELETED = /^(?:deleted_?(?:at|on|date)?|is_?deleted|removed_?at|trashed_?at|_deleted|tombstone)$/i;
const STATUS = /^(?:status|state|lifecycle_?state)$/i;
/** States in which a record may be besides those. */
const LIFE: ReadonlySet<string> = new Set([
  'published',
  'publish',
  'draft',
  'active',
  'inactive',
  'live',
  'public',
  'private',
  'pending',
  'future',
  'scheduled',
  'archived',
  'review',
  'inherit',
]);
const GONE_STATES = ['trash', 'trashed', 'deleted', 'removed'];

/** Fields by which listed records say that they are deleted. Nothing is asked. */
export function probeDeleted(subject: Subject): void {
  const { records, findings } = subject;
  for (const path of fieldPaths(records, 1)) {
    if (SAYS_DELETED.test(path)) {
      const marked = records.filter((record) => isMarked(fieldAt(record, path))).length;
      if (marked > 0)
        findings.proved(['deleted', 'field'], path, `set in ${marked} of ${records.length} listed records`);
      else findings.guessed(['deleted', 'field'], path, `null or false in all ${records.length} listed records`);
      return;
    }
    if (!STATUS.test(path)) continue;
    const states = new Set(valuesAt(records, path).filter((value) => typeof value === 'string'));
    const gone = GONE_STATES.filter((state) => states.has(state));
    if (gone.length === 0 && states.size > 0 && [...states].every((state) => LIFE.has(state))) {
      const why = `none of ${records.length} listed records is in ${GONE_STATES.join(', ')}: they have ${[...states].join(', ')}`;
      findings.guessed(['deleted', 'field'], path, why);
      findings.guessed(['deleted', 'in'], GONE_STATES, why);
      return;
    }
    if (gone.length === 0) continue;
    const evidence = `listed records have ${gone.join(', ')} there`;
    findings.proved(['deleted', 'field'], path, evidence);
    findings.proved(['deleted', 'in'], gone, evidence);
    return;
  }
}

function isMarked(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && value !== '' && value !== 0;
}
