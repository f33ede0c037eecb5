import type { SourceRecord } from '../model/json.ts';
import { hidesFields, type FieldSettings } from './field-settings.ts';

/** What records of a resource become before anything is compared or stored: fields left out, fields hashed. */
export interface RecordMask {
  (record: SourceRecord): SourceRecord;
  /** Tells masks apart without giving the key away: rows of another one are other rows. */
  readonly mark: string;
}

/** The mask of a profile alone, which has no key: null if nothing is hidden, else one that lets no record through. */
export function unsetMask({ fields }: { fields: Readonly<Record<string, FieldSettings>> }): RecordMask | null {
  return hidesFields(fields) ? Object.assign(refuse, { mark: '' }) : null;
}

function refuse(): never {
  throw new Error('a profile that hides fields was used without its mask');
}
