import { z } from 'zod';
import { documented, withExamples, fieldPath, recordsPath, columnPath } from './basic-fields.ts';
import { isTimeZone, LOCAL } from '../../model/time-zone.ts';
import { CONTRACTS, HISTORY_POLICIES, COLUMN_TYPES, type ColumnType } from '../../model/vocabulary.ts';
import { RESERVED_NAMES } from '../../model/reserved-names.ts';
import type { SourceRecord } from '../../model/json.ts';

const memberName = z.string().min(1);
const scalar = z.union([z.string(), z.number(), z.boolean()]);

const wrapped = memberName.meta({ description: 'The member that holds the value.', examples: ['iso'] });

/** Which objects are wrappers of a value. */
const unwrapRule = z.union(
  [
    z.strictObject({
      only: memberName.meta({ description: 'The only member of such an object, and the value.', examples: ['$oid'] }),
    }),
    z.strictObject({
      field: memberName.meta({ description: 'The member that says the kind of such an object.', examples: ['__type'] }),
      equals: scalar.meta({ description: 'What it says.', examples: ['Date'] }),
      value: wrapped,
    }),
    z.strictObject({
      keys: documented(z.array(memberName).min(1))('All members that such an object may have.', [['en-US', 'de-CH']]),
      value: wrapped,
    }),
  ],
  { error: 'expected { only }, { field, equals, value } or { keys, value }' },
);

const scalars = z.array(scalar.nullable()).min(1);

/** What a record must be to become a row. */
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

/** How a response may say that it lists no records, other than by an empty list. */
const spelling = z.union([z.null(), z.literal('absent'), z.literal('object'), z.literal(204), z.literal(404)]);

export type EmptySpelling = z.output<typeof spelling>;

/** How records are found in a response and identified: the fields of a resource. */
export const recordFields = {
  records: documented(recordsPath.default('data'))(
    "Path of the records in a page's body; the empty string if the body is the array of them. `[0]` is an element and `[-1]` the last one, `[*]` each element, `*` each value of a map; a key that holds a dot or a bracket is quoted. An entry without what the path says (a row without its `doc`) is set aside with its body.",
    ['data', 'posts[0].items', 'rows[*].doc', 'query.pages.*', '"odata.value"'],
  ),
  empty: documented(z.array(spelling).default([]))(
    'What says that nothing is listed, besides an empty list: `null` or an empty object (`object`) in place of the list, no value at `records` at all (`absent`), status `204` without content, or status `404` for a first page. It holds for the listing, for that of one parent, for a window of reports and for feeds (404 in a feed only if `expired` does not name it). A response with a total of 0 needs no setting.',
    [[null], ['absent', 204], [404]],
  ),
  key_field: z
    .string()
    .regex(/^[^.[\]"'*]+$/, 'expected the plain name of a field')
    .nullable()
    .default(null)
    .meta({
      description:
        'Where `records` leads through a map (`*`): the field that takes the key of each record, if the record has no such field itself. `id` may name it.',
      examples: ['slug'],
    }),
  /** The field that identifies a record, or several that do so together: of those some may be null or empty. */
  id: withExamples(z.union([fieldPath, z.array(fieldPath).min(1)]).default('id'), ['uuid', ['page', 'device']]),
  unwrap: documented(z.array(unwrapRule).default([]))(
    "Objects that only wrap a value, each by one rule: `only` is their single member; `field` and `equals` are how they say their kind, and `value` is the member with the value; `keys` are all members that they may have (locales, say), of which `value` is taken. Wherever such an object stands in a record, the value takes its place, for ids, times, filter and tables; the stored body stays the service's own.",
    [
      [{ field: '__type', equals: 'Date', value: 'iso' }, { only: '$oid' }],
      [{ keys: ['en-US', 'de-CH'], value: 'en-US' }],
      [{ keys: ['rendered', 'protected'], value: 'rendered' }],
    ],
  ),
  filter: documented(z.array(filterCondition).default([]))(
    'Conditions that a record must meet to become a row: `in` or `not_in` a list of values, `exists` (there and not null) or not. A missing field counts as null; of an array, each element counts. A record that does not meet them all counts as not listed: its row is deleted, after the usual confirmation.',
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

const INDEXED = /^[\p{L}\p{M}\p{N}_]+(\.[\p{L}\p{M}\p{N}_]+)?$/u;

/** What becomes of the fields of a record: the fields of a resource. */
export const tableFields = {
  history: withExamples(z.enum(HISTORY_POLICIES).default('latest'), ['all']),
  contract: withExamples(z.enum(CONTRACTS).default('evolve'), ['freeze']),
  /** Fields kept as one JSON column instead of being flattened or made a child table. */
  json: withExamples(z.array(columnPath).default([]), [['_links', 'seo.meta']]),
  times: documented(z.record(columnPath, zoneName).default({}))(
    'Zone of the times that name none, by field: an IANA name or an offset; without it they are read as UTC. A time that has one keeps it. `local` is for times of a zone that nobody tells: they stay texts, as the service writes them.',
    [{ published: 'Europe/Zurich', created: '+02:00' }, { date: 'local' }],
  ),
  /** Levels of objects and arrays that become columns and child tables; deeper ones become a JSON column. */
  depth: withExamples(z.int().min(1).max(10).default(4), [2]),
  /** Not part of what the rows are: may be changed at any time. */
  indexes: z
    .union([z.enum(['auto', 'none']), z.array(z.string().regex(INDEXED, 'expected a column, or table.column')).max(20)])
    .default('auto')
    .meta({
      description:
        'What rows can be found by quickly, besides their key: `auto` for the fields of `updated`, the field of `windows`, the time of publishing and what `relations` names, `none`, or columns by their names in the warehouse. They are built when a walk has ended.',
      examples: ['none', ['published_at', 'content_tags.value']],
    }),
  /** Columns made from source fields per table; further new fields are kept together in `_overflow`. */
  max_columns: withExamples(z.int().min(10).max(900).default(200), [400]),
};

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
  description: documented(z.string().min(1).max(1_000).optional())(
    'What it holds, for those who choose columns: in the comments of its column, also of those that stand already.',
    ['Words of the body'],
  ),
  unit: documented(z.string().min(1).max(100).optional())('The unit of its numbers, told with the description.', [
    'seconds',
  ]),
  type: documented(typeName.optional())(
    'The type of its column from the first value on: boolean, bigint, double, numeric, date, timestamp, text or json; for a list of plain values, that of its elements. What says the same in another way is converted (a number or true and false as a text, 0 and 1, a day as its first moment). A value that does not fit never changes the column: the record is set aside (reason `contract`), under `discard_value` only the value, under `freeze` it ends the run.',
    ['bigint'],
  ),
  exclude: documented(z.boolean().default(false))(
    'True to copy nothing of it, with all that lies in it: it is in no table, version, view or reject, and a change of it alone is none.',
    [true],
  ),
  hash: documented(z.boolean().default(false))(
    "True to copy a keyed hash in place of its values (personal data): 32 hex digits of HMAC-SHA256 under the source's `hash_key`, the same for the same value, so that it can be counted and joined. Null stays null; in an object or a list, each value is hashed.",
    [true],
  ),
  compare: documented(z.boolean().default(true))(
    'False for a field that changes with every response, such as a signed URL or a counter: it is stored with the next change of another field, and a change of it alone is none.',
    [false],
  ),
  rename: documented(
    z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,62}$/, 'expected a name in snake_case')
      .refine((name) => !RESERVED_NAMES.has(name), 'expected a name that SQL does not keep for itself')
      .optional(),
  )('The name of its column; for a list, the whole name of its child table.', ['published_at']),
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
  description: documented(z.string().min(1).max(1_000).optional())('What a record is, for those who choose tables.', [
    'A post or a page',
  ]),
  fields: documented(z.record(columnPath, fieldSettings).default({}))(
    'What is said of single fields, by their path (through lists too: `authors.email`): description, unit, type, name, and whether they are copied at all, or as hashes.',
    [{ word_count: { description: 'Words of the body', type: 'bigint' }, 'author.email': { hash: true } }],
  ),
  source_text: documented(z.enum(SOURCE_TEXTS).default('masked'))(
    'Whether the text that the service sent is kept beside the version where fields are hashed or excluded: `masked` keeps none, `kept` keeps it in `_sync_versions.source_text`, which no view shows.',
    ['kept'],
  ),
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
function hidesFields(fields: Readonly<Record<string, FieldSettings>>): boolean {
  return Object.values(fields).some(({ exclude, hash }) => exclude || hash);
}

/** Paths of the fields of any resource that are not copied as they are sent. */
export function hiddenFields({ resources }: { resources: Readonly<Record<string, Hiding>> }): string[] {
  const paths = Object.values(resources).flatMap(({ fields }) =>
    Object.entries(fields).flatMap(([path, { exclude, hash }]) => (exclude || hash ? [path] : [])),
  );
  return [...new Set(paths)];
}

/** True if changes of some field do not count. */
export function hasUncompared(fields: Readonly<Record<string, FieldSettings>>): boolean {
  return Object.values(fields).some(({ compare }) => !compare);
}

interface Hiding {
  fields: Readonly<Record<string, FieldSettings>>;
}

/** What records of a resource become before anything is compared or stored: fields left out, fields hashed. */
export interface RecordMask {
  (record: SourceRecord): SourceRecord;
  /** Identifies a mask without revealing its key: rows of another mask differ. */
  readonly mark: string;
}

/** The mask of a profile alone, which has no key: null if nothing is hidden, else one that lets no record through. */
export function unsetMask({ fields }: { fields: Readonly<Record<string, FieldSettings>> }): RecordMask | null {
  return hidesFields(fields) ? Object.assign(refuse, { mark: '' }) : null;
}

function refuse(): never {
  throw new Error('a profile that hides fields was used without its mask');
}
