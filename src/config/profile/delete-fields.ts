import { z } from 'zod';
import { documented, bodyPath, recordsPath, fieldPath, variablesIn } from './basic-fields.ts';
import { incrementalSchema, zone } from './incremental.ts';
import { pageSchema } from './page-style.ts';
import { recordFields } from './record-fields.ts';
import { NEEDS_POST, requestFields } from './request-fields.ts';

/** Statuses that never say that a record is gone: they are about the caller, or pass. */
const NEVER_GONE: ReadonlySet<number> = new Set([401, 407, 408, 409, 421, 423, 425, 429]);

/** Answers that mean that what was asked for is gone. */
export const goneSchema = z
  .strictObject({
    status: z
      .array(
        z
          .int()
          .refine((status) => (status >= 200 && status < 300) || (status >= 400 && status < 500), {
            error: 'expected statuses from 200 to 299 or from 400 to 499',
          })
          .refine((status) => !NEVER_GONE.has(status), {
            error: ({ input }) => `${String(input)} never says that a record is gone`,
          }),
      )
      .min(1)
      .meta({ description: 'Statuses, one of which such an answer has.', examples: [[403]] }),
    body: z
      .strictObject({
        path: bodyPath.meta({ description: 'That place.', examples: ['errors'] }),
        contains: documented(z.string().min(1).optional())('That text.', ['FORBIDDEN']),
      })
      .optional()
      .meta({
        description:
          'A place in the JSON body that must be there and not null; with `contains`, as text it must contain this (case does not count).',
        examples: [{ path: 'errors', contains: 'FORBIDDEN' }],
      }),
  })
  .refine(({ status, body }) => body !== undefined || status.every((each) => each >= 300), {
    path: ['body'],
    error: 'expected a place in the body, because a status of success alone says that the record is there',
  });

/** How one record is read alone: the fields of a resource. */
export const itemFields = {
  /** Path of one record, with `{id}`; null if a record cannot be read alone. */
  item: z
    .string()
    .includes('{id}')
    .regex(/^[^?#]*$/, 'expected a path without ? or #: query parameters of a single record stand in item_query')
    .nullable()
    .default(null)
    .meta({ examples: ['/posts/{id}'] }),
  /** Query parameters of that request: `inherit` for those of the listing (`query`), or others. */
  item_query: z
    .union([z.literal('inherit'), z.record(z.string(), z.string())])
    .default('inherit')
    .meta({ examples: [{ expand: 'tags' }, 'inherit'] }),
  item_record: documented(recordsPath.default(''))(
    'Path of the record in the body of that answer; the empty string if the body is the record. `rows[*].doc` and `pages.*` are paths to the one entry of an array or a map.',
    ['data', 'posts[0]', 'query.pages.*'],
  ),
  gone: documented(goneSchema.nullable().default(null))(
    'Answers to a request for a single record that mean that it is gone, besides 404 and 410. They mean nothing in a listing. As a service may answer so to a caller that has lost its rights, another record must be found in the same round before one is deleted.',
    [{ status: [403] }, { status: [403], body: { path: 'errors', contains: 'FORBIDDEN' } }],
  ),
};

export type GoneRule = z.output<typeof goneSchema>;

const { format, lookback } = incrementalSchema.shape;

/** Which entries of a feed are about the resource. */
export const entryFilter = z
  .array(z.strictObject({ field: fieldPath, in: z.array(z.union([z.string(), z.number(), z.boolean()])).min(1) }))
  .default([])
  .meta({
    description: 'Entries in which one of these fields has none of its values are about something else.',
    examples: [[{ field: 'subject_type', in: ['Article'] }]],
  });

const deleteFeedFields = z.strictObject({
  ...requestFields,
  page: documented(pageSchema.nullable().default(null))(
    "How this listing is cut into pages; null: like the resource's own.",
    [{ style: 'page', size: 100 }],
  ),
  records: recordFields.records.meta({
    description: "Path of the array of entries in a page's body; the empty string if the body is the array.",
    examples: ['data'],
  }),
  id: z
    .union([fieldPath, z.array(fieldPath).min(1)])
    .meta({ description: 'Where an entry names the id of the deleted record.', examples: ['item'] }),
  at: documented(fieldPath.nullable().default(null))(
    'Where an entry names the time of the delete; null if it does not: then all of it is read each time.',
    ['timestamp'],
  ),
  zone: documented(zone.nullable().default(null))('Zone of `at` where that names none; null: UTC.', ['Europe/Zurich']),
  filter: entryFilter,
  format: format.meta({
    description: 'How `{since}` is written, as in `incremental.format`.',
    examples: ['iso', 'epoch_s', 'yyyy-MM-dd HH:mm:ss'],
  }),
  lookback: documented(lookback)('How far before the last known delete the next reading begins.', ['10m']),
});

/** A listing of deletes, beside that of the records. */
export const deleteFeedSchema = deleteFeedFields
  .refine(({ at, ...request }) => at !== null || !holdsSince(request), {
    path: ['at'],
    error: 'expected the field with the time of the delete, because {since} goes by it',
  })
  .refine(({ method, body }) => method === 'POST' || body === null, NEEDS_POST);

/** True if a request of the feed can ask for what came since a moment. */
function holdsSince({ path, query, headers, body }: Record<string, unknown>): boolean {
  return variablesIn([path, query, headers, body]).includes('since');
}

export type DeleteFeed = z.output<typeof deleteFeedSchema>;

const deletedFieldSchema = z.strictObject({
  field: fieldPath.meta({ description: 'Dotted path of the field that says so.', examples: ['deletedAt'] }),
  in: z
    .array(z.union([z.string(), z.number(), z.boolean()]))
    .min(1)
    .optional()
    .meta({
      description:
        'The values that mean deleted. Without them every value does that is not null, false, 0, empty or a time of the years 0 and 1.',
      examples: [['trash', 'archived']],
    }),
  at: documented(fieldPath.optional())('Dotted path of the time of the delete, if `field` itself is none.', [
    'modified_gmt',
  ]),
});

/** The fields by which records say that they are deleted; null if there are none. */
export const deletedSchema = z
  .union([deletedFieldSchema, z.array(deletedFieldSchema).min(1)])
  .nullable()
  .default(null);

/** How a service states that records are deleted: the fields of a resource. */
export const deleteFields = {
  deleted: documented(deletedSchema)(
    'Fields by which a record says of itself that it is deleted (a tombstone), wherever it is met: in a whole listing, in an incremental one, read alone. Its row is marked as deleted at the end of the run, at the time that the service names, without further confirmation, and held like all deletes if they are too many. A tombstone of a record without a row writes nothing; a record that is listed without it lives again.',
    [
      { field: 'deletedAt' },
      { field: 'status', in: ['trash', 'archived'], at: 'modified_gmt' },
      [{ field: 'is_deleted' }, { field: 'state', in: ['removed'] }],
    ],
  ),
  delete_feed: documented(deleteFeedSchema.nullable().default(null))(
    'A listing of its own that names deletes, read in every sync from where it was left, so that deletes arrive without a whole walk. A record that it names is read alone before its row is marked as deleted, as it may have been restored; where the profile has no `item`, the listing is asked, and the feed is believed if it is newer than the row.',
    [
      {
        path: '/activity',
        query: {
          'filter[action][_eq]': 'delete',
          'filter[collection][_eq]': 'articles',
          'filter[timestamp][_gte]': '{since}',
          sort: 'id',
        },
        records: 'data',
        id: 'item',
        at: 'timestamp',
        format: 'iso',
      },
    ],
  ),
};
