import type { ColumnDataType, ColumnDefinitionBuilder, Kysely, RawBuilder } from 'kysely';

/** What the databases call differently; everything else in a migration is said alike. */
export interface MigrationDialect {
  /** The type of a column of bytes. */
  bytes: ColumnDataType | RawBuilder<unknown>;
  /** A column whose value is given by the database, and grows with every row. */
  growing: { type: ColumnDataType; number: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder };
  /** The type of a moment, of tables that later steps make. */
  timestamp: RawBuilder<unknown>;
  /** Gives all times of our own tables that type: those of earlier steps have none of a zone. */
  zoneTimes: (db: Kysely<unknown>) => Promise<void>;
  hasColumn: (db: Kysely<unknown>, table: string, column: string) => Promise<boolean>;
  /** A moment of a table of ours, in a view, with the type that people who read it expect. */
  moment: (expression: RawBuilder<unknown>) => RawBuilder<unknown>;
  /** Gives a view another query, with the same columns first; rights to read it stay. */
  replaceView: (db: Kysely<unknown>, name: string, query: RawBuilder<unknown>) => Promise<void>;
  /** True for a database in which views can call functions of ours. */
  hasFunctions: boolean;
  /** True for a database in which an expression of a view has a type. */
  hasTypedExpressions: boolean;
}
