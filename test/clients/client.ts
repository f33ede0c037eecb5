import type { ColumnType } from '../../src/model/vocabulary.ts';

/** A copy as a client is led to it. */
export interface ReadableCopy {
  database: 'sqlite' | 'postgres';
  /** Path of the file on SQLite. */
  file: string;
  /** Address of the server's database on Postgres, without the schema, for a role that `content-sync grants` lets read. */
  url: string;
  /** The same for the owner, where a client writes as well. */
  ownerUrl: string;
  schema: string;
  tables: readonly { name: string; columns: readonly { name: string; type: ColumnType }[] }[];
  /** A folder for what the client writes. */
  folder: string;
  /** Runs the command line on the copy; returns what it printed. */
  command(...args: string[]): Promise<string>;
}

/** What a client makes of a column: its own word for the type; null where it does not show the column at all. */
export type ReadTypes = Map<string, Map<string, string>>;

export interface Client {
  name: string;
  databases: readonly ReadableCopy['database'][];
  /** Makes the client ready; returns why it cannot be had here, or null. */
  install(): Promise<string | null>;
  /** The type of every column that it finds, by table and column; throws where it cannot read one. */
  read(copy: ReadableCopy): Promise<ReadTypes>;
  /** What it had to be told to read right, for the table. */
  note?(database: ReadableCopy['database']): string;
  /** Its words for each type of ours, on this database; a column of any other word is read wrongly. */
  words(database: ReadableCopy['database']): Readonly<Record<ColumnType, RegExp>>;
}
