import type { ColumnDataType, ColumnDefinitionBuilder, RawBuilder } from 'kysely';

/** What the databases call differently; everything else in a migration is said alike. */
export interface Words {
  /** The type of a column of bytes. */
  bytes: ColumnDataType | RawBuilder<unknown>;
  /** A column whose value is given by the database, and grows with every row. */
  growing: { type: ColumnDataType; number: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder };
}
