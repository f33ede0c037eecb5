import { z } from 'zod';
import { COLUMN_TYPES, type ColumnType } from '../model/vocabulary.ts';
import { RESERVED_NAMES } from '../model/reserved-names.ts';
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

/** What is kept of the text of records that are not copied as they were sent. */
const SOURCE_TEXTS = ['masked', 'kept'] as const;

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
    .max(1_000)
    .optional()
    .meta({
      description:
        'What it holds, for those who choose columns: in the comments of its column, also of those that stand already.',
      examples: ['Words of the body'],
    }),
  unit: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .meta({ description: 'The unit of its numbers, told with the description.', examples: ['seconds'] }),
  type: typeName.optional().meta({
    description:
      'The type of its column from the first value on: boolean, bigint, double, numeric, date, timestamp, text or json; for a list of plain values, that of its elements. What says the same in another way is converted (a number or true and false as a text, 0 and 1, a day as its first moment). A value that does not fit never changes the column: the record is set aside (reason `contract`), under `discard_value` only the value, under `freeze` it ends the run.',
    examples: ['bigint'],
  }),
  exclude: z
    .boolean()
    .default(false)
    .meta({
      description:
        'True to copy nothing of it, with all that lies in it: it is in no table, version, view or reject, and a change of it alone is none.',
      examples: [true],
    }),
  hash: z
    .boolean()
    .default(false)
    .meta({
      description:
        "True to copy a keyed hash in place of its values (personal data): 32 hex digits of HMAC-SHA256 under the source's `hash_key`, the same for the same value, so that it can be counted and joined. Null stays null; in an object or a list, each value is hashed.",
      examples: [true],
    }),
  compare: z
    .boolean()
    .default(true)
    .meta({
      description:
        'False for a field that changes with every response, such as a signed URL or a counter: it is stored with the next change of another field, and a change of it alone is none.',
      examples: [false],
    }),
  rename: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,62}$/, 'expected a name in snake_case')
    .refine((name) => !RESERVED_NAMES.has(name), 'expected a name that SQL does not keep for itself')
    .optional()
    .meta({
      description: 'The name of its column; for a list, the whole name of its child table.',
      examples: ['published_at'],
    }),
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
    .max(1_000)
    .optional()
    .meta({ description: 'What a record is, for those who choose tables.', examples: ['A post or a page'] }),
  fields: z
    .record(columnPath, fieldSettings)
    .default({})
    .meta({
      description:
        'What is said of single fields, by their path (through lists too: `authors.email`): description, unit, type, name, and whether they are copied at all, or as hashes.',
      examples: [{ word_count: { description: 'Words of the body', type: 'bigint' }, 'author.email': { hash: true } }],
    }),
  source_text: z
    .enum(SOURCE_TEXTS)
    .default('masked')
    .meta({
      description:
        'Whether the text that the service sent is kept beside the version where fields are hashed or excluded: `masked` keeps none, `kept` keeps it in `_sync_versions.source_text`, which no view shows.',
      examples: ['kept'],
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

/** True if records of the resource are not copied as they were sent. */
export function hidesFields(fields: Readonly<Record<string, FieldSettings>>): boolean {
  return Object.values(fields).some(({ exclude, hash }) => exclude || hash);
}

/** Paths of the fields of any resource that are not copied as they are sent. */
export function hiddenFields({ resources }: { resources: Readonly<Record<string, Hiding>> }): string[] {
  const paths = Object.values(resources).flatMap(({ fields }) =>
    Object.entries(fields).flatMap(([path, { exclude, hash }]) => (exclude || hash ? [path] : [])),
  );
  return [...new Set(paths)];
}

/** True if a change of some field alone is none. */
export function hasUncompared(fields: Readonly<Record<string, FieldSettings>>): boolean {
  return Object.values(fields).some(({ compare }) => !compare);
}

interface Hiding {
  fields: Readonly<Record<string, FieldSettings>>;
}
