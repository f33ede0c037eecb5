import { COLUMN_TYPES, type ColumnType } from '../../model/vocabulary.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import type { ViewModel } from '../view-model.ts';
import { ownColumn, type View } from '../view.ts';

/** A column of a view that shows what we know ourselves: name, type, SQL, description. */
export type OwnColumn = readonly [name: string, type: ColumnType, sql: string, description: string];

/** A view over own tables, of the whole source. */
export function ownView(name: string, description: string, columns: readonly OwnColumn[], from: string): View {
  return { name, resource: null, description, columns: columns.map((column) => ownColumn(...column)), from };
}

/** `calendar`: a row per day, so that days, weeks and months in which nothing happened are there too. */
export function calendarView(): View[] {
  return [ownView('calendar', 'One row per day, from the first year of the data to two years ahead.', COLUMNS, FROM)];
}

const COLUMNS = [
  ['date', 'date', 'd."date"', 'The day.'],
  ['month', 'text', 'd."month"', 'Its month, such as 2024-05.'],
  ['quarter', 'text', 'd."quarter"', 'Its quarter, such as 2024-Q2.'],
  ['year', 'integer', 'd."year"', 'Its year.'],
  [
    'iso_week',
    'text',
    'd."iso_week"',
    'Its week by ISO 8601, such as 2024-W01; its year may be another than the day has.',
  ],
  ['weekday', 'integer', 'd."weekday"', 'The day of the week from 1, Monday, to 7, Sunday.'],
  ['is_weekend', 'boolean', 'd."is_weekend"', 'True on Saturday and Sunday.'],
] as const;

const FROM = ' FROM "_sync_calendar" AS d';

/** `sync_deletes`: every delete, and when the record was back. */
export function deletesView(): View[] {
  const columns = [
    ['resource', 'text', 'd."resource"', 'The resource of the record.'],
    ['id', 'text', 'd."id"', 'The key of the record.'],
    [
      'deleted_at',
      'timestamp',
      'd."deleted_at"',
      'When the record was deleted by the word of the service, else when the service was asked and no longer had it, UTC.',
    ],
    [
      'restored_at',
      'timestamp',
      'd."restored_at"',
      'When the service was asked and had the record again, UTC; null as long as it is gone.',
    ],
  ] as const;
  return [
    ownView(
      'sync_deletes',
      'Every delete of a record, and when it was restored.',
      columns,
      ' FROM "_sync_deletes" AS d',
    ),
  ];
}

/** `sync_schema_log`: every column that came or was widened, and every one that lost its values. */
export function schemaLogView({ dialect }: ViewModel): View[] {
  const columns = [
    ['changed_at', 'timestamp', 'c."changed_at"', 'When the table changed, UTC.'],
    ['table_name', 'text', 'c."table_name"', 'The table.'],
    ['column_name', 'text', 'c."column_name"', 'Its column.'],
    ['from_type', 'text', typeWord(dialect, 'c."from_type"'), 'The type that it had; null for a new column.'],
    ['to_type', 'text', typeWord(dialect, 'c."to_type"'), 'The type that it has had since.'],
    [
      'kind',
      'text',
      `CAST(coalesce(c."kind", CASE WHEN c."from_type" IS NULL THEN 'new' ELSE 'widened' END) AS TEXT)`,
      'new, widened, gone (the records of a run have no value for it any more), renamed? (the same, and another column seems to have the values), or back.',
    ],
    ['renamed_to', 'text', 'c."renamed_to"', 'The column that seems to have the values now, as table.column.'],
  ] as const;
  const description = 'Every column of a copied table that was added, became wider, lost its values or has them again.';
  return [ownView('sync_schema_log', description, columns, ' FROM "_sync_schema_changes" AS c')];
}

/** The type that an own table remembers, in the words of the database; NULL for none. */
export function typeWord(dialect: ViewDialect, sql: string): string {
  const words = COLUMN_TYPES.map(
    (type) => `WHEN ${dialect.literal(type)} THEN ${dialect.literal(dialect.types[type])}`,
  );
  return dialect.declared(`CAST(CASE ${sql} ${words.join(' ')} END AS TEXT)`, 'text');
}
