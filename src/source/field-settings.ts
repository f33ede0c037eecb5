import { z } from 'zod';
import { COLUMN_TYPES, type ColumnType } from '../model/vocabulary.ts';
import { columnPath } from './body-path.ts';

/** Names of column types: ours, and the words that SQL has for some of them. */
const TYPE_NAMES = [...COLUMN_TYPES, 'bigint', 'float', 'decimal', 'string', 'datetime'] as const;
const TYPES_BY_NAME: Partial<Record<(typeof TYPE_NAMES)[number], ColumnType>> = {
  bigint: 'integer',
  float: 'double',
  decimal: 'numeric',
  string: 'text',
  datetime: 'timestamp',
};

const typeName = z.enum(TYPE_NAMES).transform((name, context): ColumnType => {
  const type = TYPES_BY_NAME[name] ?? COLUMN_TYPES.find((own) => own === name);
  if (type !== undefined) return type;
  context.addIssue({ code: 'custom', message: 'expected the type of a column' });
  return z.NEVER;
});

const fieldSettings = z.strictObject({
  description: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'What it holds, for those who choose columns.', examples: ['Words of the body'] }),
  unit: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'The unit of its numbers.', examples: ['seconds'] }),
  type: typeName.optional().meta({
    description:
      'The type of its column from the first value on. A value that does not fit is set aside as the contract says, and never changes the column.',
    examples: ['bigint'],
  }),
  exclude: z
    .boolean()
    .default(false)
    .meta({ description: 'True to copy nothing of it.', examples: [true] }),
  hash: z
    .boolean()
    .default(false)
    .meta({
      description: 'True to copy a keyed hash in place of its values, the same for the same value (personal data).',
      examples: [true],
    }),
  rename: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,62}$/, 'expected a name in snake_case')
    .optional()
    .meta({ description: 'The name of its column.', examples: ['published_at'] }),
});

const stateSchema = z.strictObject({
  field: columnPath.meta({ description: 'The field that holds the state of publishing.', examples: ['status'] }),
  published: z
    .array(z.union([z.string(), z.boolean(), z.number()]))
    .min(1)
    .default(['published'])
    .meta({ description: 'Its values in which a record is published.', examples: [['published', 'live']] }),
});

/** What a profile says of single fields: fields of a resource. */
export const fieldFields = {
  description: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'What a record is, for those who choose tables.', examples: ['A post or a page'] }),
  fields: z
    .record(columnPath, fieldSettings)
    .default({})
    .meta({
      description: 'Descriptions, types and names of single fields, by their path; where one is wanted.',
      examples: [{ word_count: { description: 'Words of the body', type: 'bigint' }, 'author.email': { hash: true } }],
    }),
  state: z
    .union([columnPath.transform((field) => ({ field, published: ['published'] })), stateSchema])
    .nullable()
    .default(null)
    .meta({
      description:
        'The field that holds the state of publishing, and its values in which a record is published: views show both.',
      examples: ['status', { field: 'status', published: ['published', 'live'] }],
    }),
};

export type FieldSettings = z.output<typeof fieldSettings>;
export type PublishingState = z.output<typeof stateSchema>;
