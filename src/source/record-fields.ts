import { z } from 'zod';
import { fieldPath, recordsPath } from './body-path.ts';

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
      keys: z
        .array(memberName)
        .min(1)
        .meta({ description: 'All members that such an object may have.', examples: [['en-US', 'de-CH']] }),
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

/** How records are found in an answer and told apart: the fields of a resource. */
export const recordFields = {
  records: recordsPath.default('data').meta({
    description:
      "Path of the records in a page's body; the empty string if the body is the array of them. `[0]` is an element and `[-1]` the last one, `[*]` each element, `*` each value of a map; a key that holds a dot or a bracket is quoted. An entry without what the path says (a row without its `doc`) is set aside with its body.",
    examples: ['data', 'posts[0].items', 'rows[*].doc', 'query.pages.*', '"odata.value"'],
  }),
  empty: z
    .array(spelling)
    .default([])
    .meta({
      description:
        'What says that nothing is listed, besides an empty list: `null` or an empty object (`object`) in place of the list, no value at `records` at all (`absent`), status `204` without content, or status `404` for a first page. It holds for the listing, for that of one parent, for a window of reports and for feeds (404 in a feed only if `expired` does not name it). A response with a total of 0 needs no setting.',
      examples: [[null], ['absent', 204], [404]],
    }),
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
  id: z
    .union([fieldPath, z.array(fieldPath).min(1)])
    .default('id')
    .meta({ examples: ['uuid', ['page', 'device']] }),
  unwrap: z
    .array(unwrapRule)
    .default([])
    .meta({
      description:
        "Objects that only wrap a value, each by one rule: `only` is their single member; `field` and `equals` are how they say their kind, and `value` is the member with the value; `keys` are all members that they may have (locales, say), of which `value` is taken. Wherever such an object stands in a record, the value takes its place, for ids, times, filter and tables; the stored body stays the service's own.",
      examples: [
        [{ field: '__type', equals: 'Date', value: 'iso' }, { only: '$oid' }],
        [{ keys: ['en-US', 'de-CH'], value: 'en-US' }],
        [{ keys: ['rendered', 'protected'], value: 'rendered' }],
      ],
    }),
  filter: z
    .array(filterCondition)
    .default([])
    .meta({
      description:
        'Conditions that a record must meet to become a row: `in` or `not_in` a list of values, `exists` (there and not null) or not. A missing field counts as null; of an array, each element counts. A record that does not meet them all counts as not listed: its row is deleted, after the usual confirmation.',
      examples: [
        [
          { field: 'type', in: ['post'] },
          { field: 'deleted_at', exists: false },
        ],
      ],
    }),
};
