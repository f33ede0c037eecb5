import { SyncError } from '../model/errors.ts';

/** How a database that is open stands to the name under which everybody else looks for it. */
export interface NameState {
  /**
   * `gone`: nothing has that name. `replaced`: something else has it, or what belongs to the database has lost its own
   * name. In both cases nothing is read or written until it is `named` again, or opened anew.
   */
  is: 'named' | 'gone' | 'replaced';
  /** Identifies the file that has the name now: the text stays the same as long as the file does. */
  seen: string;
}

/** Of a server, which knows its tables by nothing else. */
export const NAMED: NameState = { is: 'named', seen: '' };

/** The files of a database that nobody here has open, as they are found by their names. */
export interface FileMark {
  /** Stays the same as long as the file is the same one; null if there is none. */
  identity: string | null;
  /** Stays the same as long as nobody writes to it. */
  content: string;
  /** When somebody wrote to it last, epoch milliseconds; 0 if that is not known. */
  changedAt: number;
  /** Size of the write-ahead log, which somebody has to fold back. */
  logBytes: number;
}

/** How a file that is closed stands to the one that was closed under its name; `known` is null before that. */
export function restingState(known: string | null, { identity, content }: FileMark): NameState {
  if (known === null || identity === known) return { is: 'named', seen: content };
  return { is: identity === null ? 'gone' : 'replaced', seen: content };
}

/** The error of whatever is asked of a file that is not the one of its name. */
export function nameLost(file: string, is: 'gone' | 'replaced'): SyncError {
  const what =
    is === 'gone' ? 'is no longer there, or may not be read' : 'or its log is no longer the file that was opened';
  return new SyncError('warehouse_gone', `${file} ${what}`, { recovery: 'stop', hint: HINTS[is] });
}

const HINTS = {
  gone: 'put it back, or restart to begin a new copy',
  replaced: 'restart `serve`, or run the same command again, to go on with the file that is there now',
} as const;
