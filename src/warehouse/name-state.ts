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
