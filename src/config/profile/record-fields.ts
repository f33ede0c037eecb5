/**
 * Schemas of the profile fields of a resource about its records: where they are in a response, and their ids (`recordFields`:
 * `records: data.items`), how they become tables and columns (`tableFields`), and settings of single fields, such as another
 * name (`singleFields`).
 */
import { z } from 'zod';
import type { SourceRecord } from '../../model/json.ts';
import { isTimeZone, LOCAL } from '../../model/time-zone.ts';
import { COLUMN_TYPES, type ColumnType, CONTRACTS, HISTORY_POLICIES, RESERVED_NAMES } from '../../model/vocabulary.ts';
import { columnPath, documented, fieldPath, recordsPath, withExamples } from './basic-fields.ts';

const memberName = z.string().min(1);
const scalar = z.union([z.string(), z.number(), z.boolean()]);

const wrapped = memberName.meta({ description: 'The member with the value.', examples: ['iso'] });

/** Recognises objects that only wrap a value, such as `{"$oid": "65f1"}`. */
const unwrapRule = z.union(
  [
    z.strictObject({
      only: memberName.meta({ description: 'The only member, which is the value.', examples: ['$oid'] }),
    }),
    z.strictObject({
      field: memberName.meta({ description: 'The member that identifies such an object.', examples: ['__type'] }),
      equals: scalar.meta({ description: 'Its value.', examples: ['Date'] }),
      value: wrapped,
    }),
    z.strictObject({
      keys: documented(z.array(memberName).min(1))('All members that such an object can have.', [['en-US', 'de-CH']]),
      value: wrapped,
    }),
  ],
  { error: 'expected { only }, { field, equals, value } or { keys, value }' },
);

const scalars = z.array(scalar.nullable()).min(1);

/** A condition on a record to become a row. */
export const filterCondition = z
  .strictObject({
    field: fieldPath,
    in: scalars.optional(),
    not_in: scalars.optional(),
    exists: z.boolean().optional(),
  })
  .refine(({ in: wanted, not_in, exists }) => [wanted, not_in, exists].some((each) => each !== undefined), {
    error: 'expected in, not_in or exists',
  });

/** Forms of an empty listing besides an empty list. */
const emptyForm = z.union([z.null(), z.literal('absent'), z.literal('object'), z.literal(204), z.literal(404)]);

export type EmptyForm = z.output<typeof emptyForm>;

/** Settings of a resource for how its records are found in a response and identified. */
export const recordFields = {
  records: documented(recordsPath.default('data'))(
    'Path of the records in a page; empty if the body is the array. `[*]` is each element, `*` each value of a map.',
    ['data', 'posts[0].items', 'rows[*].doc', 'query.pages.*', '"odata.value"'],
  ),
  empty: documented(z.array(emptyForm).default([]))(
    'What means an empty list: `null`, `object` (an empty one), `absent` (nothing at `records`), `204`, `404`. A total of 0 needs no setting.',
    [[null], ['absent', 204], [404]],
  ),
  key_field: documented(
    z
      .string()
      .regex(/^[^.[\]"'*]+$/, 'expected the plain name of a field')
      .nullable()
      .default(null),
  )('Field that takes the key of a record in a map (`*`).', ['slug']),
  /** The field that identifies a record, or several together, of which some may be null or empty. */
  id: withExamples(z.union([fieldPath, z.array(fieldPath).min(1)]).default('id'), ['uuid', ['page', 'device']]),
  unwrap: documented(z.array(unwrapRule).default([]))(
    'Objects that only wrap a value, replaced by it: by their only member, by a member that identifies them, or by their keys.',
    [
      [{ field: '__type', equals: 'Date', value: 'iso' }, { only: '$oid' }],
      [{ keys: ['en-US', 'de-CH'], value: 'en-US' }],
      [{ keys: ['rendered', 'protected'], value: 'rendered' }],
    ],
  ),
  filter: documented(z.array(filterCondition).default([]))(
    'Conditions for a record: `in`, `not_in`, `exists`. Others count as not listed. A missing field is null; in an array each element counts.',
    [
      [
        { field: 'type', in: ['post'] },
        { field: 'deleted_at', exists: false },
      ],
    ],
  ),
};

/** An IANA name or a fixed offset. */
const zoneName = z
  .string()
  .refine(
    (name) => name === LOCAL || isTimeZone(name),
    'expected a time zone such as Europe/Zurich or +02:00, or local',
  );

const INDEX_TARGET = /^[\p{L}\p{M}\p{N}_]+(\.[\p{L}\p{M}\p{N}_]+)?$/u;

/** Settings of a resource for how the fields of its records become columns and tables. */
export const tableFields = {
  history: withExamples(z.enum(HISTORY_POLICIES).default('latest'), ['all']),
  contract: withExamples(z.enum(CONTRACTS).default('evolve'), ['freeze']),
  /** Fields kept as one JSON column instead of being flattened or made a child table. */
  json: withExamples(z.array(columnPath).default([]), [['_links', 'seo.meta']]),
  times: documented(z.record(columnPath, zoneName).default({}))(
    'Zone of times without one, by field; UTC by default. `local`: an unknown zone, so the time stays text.',
    [{ published: 'Europe/Zurich', created: '+02:00' }, { date: 'local' }],
  ),
  /** Levels of objects and arrays that become columns and child tables; deeper ones become a JSON column. */
  depth: withExamples(z.int().min(1).max(10).default(4), [2]),
  /** Does not affect the rows: may be changed at any time. */
  indexes: z
    .union([
      z.enum(['auto', 'none']),
      z.array(z.string().regex(INDEX_TARGET, 'expected a column, or table.column')).max(20),
    ])
    .default('auto')
    .meta({
      description: '`auto` (times of change, windows, publishing, relations), `none`, or columns; built after a scan.',
      examples: ['none', ['published_at', 'content_tags.value']],
    }),
  /** Columns made from source fields per table; further new fields are kept together in `_overflow`. */
  max_columns: withExamples(z.int().min(10).max(900).default(200), [400]),
};

/** Names of column types, with the words that SQL has for some of them. */
const TYPE_NAMES = [...COLUMN_TYPES, 'bigint', 'float', 'decimal', 'string', 'datetime'] as const;
const TYPES_BY_NAME: Partial<Record<(typeof TYPE_NAMES)[number], ColumnType>> = {
  bigint: 'integer',
  float: 'double',
  decimal: 'numeric',
  string: 'text',
  datetime: 'timestamp',
};

const typeName = z.enum(TYPE_NAMES).transform((name, context): ColumnType => {
  const type = TYPES_BY_NAME[name] ?? COLUMN_TYPES.find((each) => each === name);
  if (type !== undefined) return type;
  context.addIssue({ code: 'custom', message: 'expected the type of a column' });
  return z.NEVER;
});

const fieldSettings = z.strictObject({
  description: documented(z.string().min(1).max(1_000).optional())('What the column holds, for its comment.', [
    'Words of the body',
  ]),
  unit: documented(z.string().min(1).max(100).optional())('Unit of its numbers, shown with the description.', [
    'seconds',
  ]),
  type: documented(typeName.optional())(
    'Type of the column, or of list elements: boolean, bigint, double, numeric, date, timestamp, text or json.',
    ['bigint'],
  ),
  exclude: documented(z.boolean().default(false))('True to omit it everywhere; a change of it alone is not a change.', [
    true,
  ]),
  hash: documented(z.boolean().default(false))(
    'True to store a keyed hash instead of each value (personal data), under `hash_key` of the source.',
    [true],
  ),
  compare: documented(z.boolean().default(true))(
    'False for a field that changes with every response: it is stored with the next change of another field.',
    [false],
  ),
  rename: documented(
    z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,62}$/, 'expected a name in snake_case')
      .refine((name) => !RESERVED_NAMES.has(name), 'expected a name that SQL does not keep for itself')
      .optional(),
  )('Name of its column, or of the child table of a list.', ['published_at']),
});

const stateSchema = z.strictObject({
  field: columnPath.meta({ description: 'The field with the publishing state.', examples: ['status'] }),
  published: z
    .array(z.union([z.string(), z.boolean(), z.number()]))
    .min(1)
    .default(['published'])
    .meta({ description: 'Its values that mean published.', examples: [['published', 'live']] }),
});

/** Settings of a resource for single fields, and for the meaning of its records. */
export const singleFields = {
  description: documented(z.string().min(1).max(1_000).optional())('What a record is, for the comment of the table.', [
    'A post or a page',
  ]),
  fields: documented(z.record(columnPath, fieldSettings).default({}))(
    'Single fields by path, also through lists (`authors.email`).',
    [{ word_count: { description: 'Words of the body', type: 'bigint' }, 'author.email': { hash: true } }],
  ),
  source_text: documented(z.enum(['masked', 'kept']).default('masked'))(
    'With hidden fields: `kept` stores the sent text in `_sync_versions.source_text`, `masked` does not.',
    ['kept'],
  ),
  state: z
    .union([columnPath.transform((field) => ({ field, published: ['published'] })), stateSchema])
    .nullable()
    .default(null)
    .meta({
      description: 'The field with the publishing state, or with its published values.',
      examples: ['status', { field: 'status', published: ['published', 'live'] }],
    }),
};

export type FieldSettings = z.output<typeof fieldSettings>;
type FieldsByPath = Readonly<Record<string, FieldSettings>>;

/** Returns the paths of excluded and hashed fields of all resources. */
export function hiddenFields(profile: { resources: Readonly<Record<string, { fields: FieldsByPath }>> }): string[] {
  const settings = Object.values(profile.resources).flatMap(({ fields }) => Object.entries(fields));
  return [...new Set(settings.flatMap(([path, { exclude, hash }]) => (exclude || hash ? [path] : [])))];
}

/** A function that excludes and hashes fields of a record, before the record is compared or stored. */
export interface RecordMask {
  (record: SourceRecord): SourceRecord;
  /** Identifies the mask without revealing its key. If the mark changes, all rows must be rewritten. */
  readonly mark: string;
}

/**
 * Returns the mask of a profile as it was loaded; null if it hides no field. The key for hashes is in the settings of the
 * source: until `maskedProfile` has set the mask with that key, this one throws for every record, so that none is stored.
 */
export function pendingMask({ fields }: { fields: FieldsByPath }): RecordMask | null {
  const isHiding = Object.values(fields).some(({ exclude, hash }) => exclude || hash);
  return isHiding ? Object.assign(refuse, { mark: '' }) : null;
}

function refuse(): never {
  throw new Error('a profile that hides fields was used without its mask');
}
