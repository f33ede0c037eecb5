import { SyncError } from '../model/errors.ts';
import type { SourcePath } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { Contract } from '../model/vocabulary.ts';
import { pathText } from './columns/source-path.ts';
import type { Rejection } from './records/record-limits.ts';

/** What is noted of values that fit nowhere. */
interface MisfitNotes {
  /** Of the record under way. */
  key: string;
  misfit: boolean;
  discarded: number;
  rejection: Rejection | null;
}

/** The reaction to a value that fits no column. */
export const ON_MISFIT: Record<Contract, (notes: MisfitNotes, path: SourcePath) => void> = {
  evolve: (notes) => {
    notes.misfit = true;
  },
  freeze: (notes, path) => {
    throw frozen(notes, `${shownPath(path)} does not fit the tables as they are`, FROZEN_HINT);
  },
  discard_row: (notes, path) => {
    reject(notes, `${shownPath(path)} does not fit the tables as they are`);
  },
  discard_value: (notes) => {
    notes.discarded++;
  },
};

/** The reaction to a value that is none of the type that the profile gives its field: no table grows for it. */
export const ON_PIN_MISFIT: Record<Contract, (notes: MisfitNotes, path: SourcePath, fixedBy?: string) => void> = {
  evolve: (notes, path, fixedBy) => {
    reject(notes, fixedBy === undefined ? otherType(path) : fixedType(path, fixedBy));
  },
  freeze: (notes, path) => {
    throw frozen(notes, otherType(path), 'Correct the value at the service, or the type of the field in the profile.');
  },
  discard_row: (notes, path) => {
    reject(notes, otherType(path));
  },
  discard_value: ON_MISFIT.discard_value,
};

const FROZEN_HINT =
  'The resource is frozen by its contract. Set "contract: evolve" in the profile to let its tables grow.';

function frozen({ key }: MisfitNotes, what: string, hint: string): SyncError {
  return new SyncError('contract_frozen', `record ${key}: ${what}`, { recovery: 'stop', hint });
}

function reject(notes: MisfitNotes, detail: string): void {
  notes.rejection ??= { reason: 'contract', detail };
}

function otherType(path: SourcePath): string {
  return `${shownPath(path)} is not of the type that the profile gives it`;
}

function fixedType(path: SourcePath, fixedBy: string): string {
  return `${shownPath(path)} does not fit its column, whose type cannot change while ${fixedBy} depends on it; drop that, or make it on the views of the copy, then sync again`;
}

/** A path for a message or a database: a key may hold anything, even a NUL. */
function shownPath(path: SourcePath): string {
  return visibleText(pathText(path).toWellFormed());
}
