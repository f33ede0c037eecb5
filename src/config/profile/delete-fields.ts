/**
 * Fields of a resource about deletes and single records: `item` (the path of one record), `deleted` (fields that mark a
 * record as deleted), `delete_feed` (a listing of deletes), and a feed of changes in place of a filter (`changeFeedSchema`).
 * How many deletes are carried out without an operator is a setting: `deletes` in `settings.ts`.
 */
import { z } from 'zod';
import { bodyPath, documented, fieldPath, recordsPath, templateSchema, variablesIn } from './basic-fields.ts';
import { incrementalSchema, zone } from './incremental.ts';
import { pageSchema } from './page-style.ts';
import { recordFields } from './record-fields.ts';
import { NEEDS_POST, requestFields } from './request-fields.ts';

/** Statuses that never mean a deleted record: they concern the caller, or are temporary. */
const NEVER_GONE: ReadonlySet<number> = new Set([401, 407, 408, 409, 421, 423, 425, 429]);

/** Responses that mean that the record is deleted. */
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
    body: documented(
      z
        .strictObject({
          path: bodyPath.meta({ description: 'That place.', examples: ['errors'] }),
          contains: documented(z.string().min(1).optional())('That text.', ['FORBIDDEN']),
        })
        .optional(),
    )('A place in the JSON body that must be set, and contain this text.', [{ path: 'errors', contains: 'FORBIDDEN' }]),
  })
  .refine(({ status, body }) => body !== undefined || status.every((each) => each >= 300), {
    path: ['body'],
    error: 'expected a place in the body, because a status of success alone says that the record is there',
  });

export const itemFields = {
  /** Path of one record, with `{id}`; null if a record cannot be fetched individually. */
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
    'Path of the record in that response; empty if the body is the record. `rows[*].doc` and `pages.*` work too.',
    ['data', 'posts[0]', 'query.pages.*'],
  ),
  gone: documented(goneSchema.nullable().default(null))(
    'Responses, besides 404 and 410, that mean that a single record is gone. Another record must be found in the same pass.',
    [{ status: [403] }, { status: [403], body: { path: 'errors', contains: 'FORBIDDEN' } }],
  ),
};

export type GoneRule = z.output<typeof goneSchema>;

const { format, lookback } = incrementalSchema.shape;

/** Which entries of a feed belong to the resource. */
const entryFilter = z
  .array(z.strictObject({ field: fieldPath, in: z.array(z.union([z.string(), z.number(), z.boolean()])).min(1) }))
  .default([])
  .meta({
    description: 'Conditions on entries; others are ignored.',
    examples: [[{ field: 'subject_type', in: ['Article'] }]],
  });

const deleteFeedFields = z.strictObject({
  ...requestFields,
  page: documented(pageSchema.nullable().default(null))(
    "How this listing is cut into pages; null: like the resource's own.",
    [{ style: 'page', size: 100 }],
  ),
  records: documented(recordFields.records)('Path of the entries in a page; empty if the body is the array.', ['data']),
  id: z
    .union([fieldPath, z.array(fieldPath).min(1)])
    .meta({ description: 'Where an entry has the id of the deleted record.', examples: ['item'] }),
  at: documented(fieldPath.nullable().default(null))(
    'Where an entry has the time of the delete; null: everything is read each time.',
    ['timestamp'],
  ),
  zone: documented(zone.nullable().default(null))('Zone of `at` if it has none; null: UTC.', ['Europe/Zurich']),
  filter: entryFilter,
  format: format.meta({
    description: 'How `{since}` is written, as in `incremental.format`.',
    examples: ['iso', 'epoch_s', 'yyyy-MM-dd HH:mm:ss'],
  }),
  lookback: documented(lookback)('How far before the last known delete the next scan starts.', ['10m']),
});

/** A listing of deletes, besides that of the records. */
export const deleteFeedSchema = deleteFeedFields
  .refine(({ at, ...request }) => at !== null || !usesSince(request), {
    path: ['at'],
    error: 'expected the field with the time of the delete, because {since} goes by it',
  })
  .refine(({ method, body }) => method === 'POST' || body === null, NEEDS_POST);

/** True if requests of the feed contain `{since}`. */
function usesSince({ path, query, headers, body }: Record<string, unknown>): boolean {
  return variablesIn([path, query, headers, body]).includes('since');
}

export type DeleteFeed = z.output<typeof deleteFeedSchema>;

const deletedFieldSchema = z.strictObject({
  field: fieldPath.meta({ description: 'Path of the field that says so.', examples: ['deletedAt'] }),
  in: z
    .array(z.union([z.string(), z.number(), z.boolean()]))
    .min(1)
    .optional()
    .meta({
      description: 'Values that mean deleted; by default all but null, false, 0, empty and times of year 0 and 1.',
      examples: [['trash', 'archived']],
    }),
  at: documented(fieldPath.optional())('Path of the time of the delete, if `field` is not a time.', ['modified_gmt']),
});

/** Fields that mark a record as deleted; null for none. */
const deletedSchema = z
  .union([deletedFieldSchema, z.array(deletedFieldSchema).min(1)])
  .nullable()
  .default(null);

export const deleteFields = {
  deleted: documented(deletedSchema)(
    'Fields that mark a record as deleted (a tombstone). Its row is deleted without further verification, or held with too many others.',
    [
      { field: 'deletedAt' },
      { field: 'status', in: ['trash', 'archived'], at: 'modified_gmt' },
      [{ field: 'is_deleted' }, { field: 'state', in: ['removed'] }],
    ],
  ),
  delete_feed: documented(deleteFeedSchema.nullable().default(null))(
    'A listing that names deletes, read in every sync. Each record is fetched before it is deleted; without `item`, the listing is checked.',
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

/** A path in the body of a response of the feed, or `header:<name>`. */
const feedResponsePath = z.string().min(1);
const { method, headers, body } = requestFields;

const request = {
  path: documented(
    templateSchema(['cursor', 'page', 'partition'])
      .regex(/^\/[^?#]*$/, 'expected a path that begins with /, without ? or #')
      .nullable()
      .default(null),
  )('Path of the request; null: that of the resource.', ['/_changes']),
  method,
  query: documented(z.record(z.string().min(1), templateSchema(['cursor', 'page', 'partition'])).default({}))(
    'Query parameters, as templates.',
    [{ since: '{cursor}', include_docs: 'true', limit: '1000' }],
  ),
  headers,
  body,
};

const startSchema = z.union([
  z.strictObject({
    ...request,
    cursor: feedResponsePath.meta({
      description: 'Where the response has the current end of the feed.',
      examples: ['last_seq', 'header:X-Sequence'],
    }),
  }),
  z.strictObject({
    walk: documented(feedResponsePath)('Where the last page of a full scan has the first cursor.', ['nextSyncToken']),
  }),
]);

/** A feed of changes, whose cursor is stored between runs, instead of a filter by time. */
export const changeFeedSchema = z
  .strictObject({
    mode: z.literal('feed'),
    ...request,
    records: documented(recordsPath.nullable().default(null))(
      "Path of the entries in a response; null: the resource's `records`.",
      ['results'],
    ),
    record: documented(bodyPath.nullable().default(''))(
      'Path of the record within an entry; null if entries only have ids, which are fetched individually.',
      ['doc', '', null],
    ),
    id: z
      .union([fieldPath, z.array(fieldPath).min(1)])
      .nullable()
      .default(null)
      .meta({ description: "Where an entry names the id; null: the resource's `id`.", examples: ['id'] }),
    filter: entryFilter,
    deleted: deletedSchema.meta({
      description: 'Fields by which an entry says that its record is deleted.',
      examples: [{ field: 'deleted' }, { field: 'sys.type', in: ['DeletedEntry'], at: 'sys.deletedAt' }],
    }),
    next: documented(feedResponsePath.nullable().default(null))(
      'Where the response has the next cursor: a path, or `header:` and a name.',
      ['last_seq', 'nextSyncUrl'],
    ),
    last: documented(fieldPath.nullable().default(null))(
      'Instead of `next`: the field of the last entry that is the next cursor.',
      ['id'],
    ),
    next_page: documented(feedResponsePath.nullable().default(null))(
      'Where a response names its next page, `{page}` in templates; the last one names the cursor.',
      ['nextPageToken'],
    ),
    url: documented(z.boolean().default(false))('True if `next`, `next_page` and `start` are URLs.', [true]),
    more: documented(feedResponsePath.nullable().default(null))(
      'Where a response says that more follows. Null: an empty page or an unchanged cursor ends it.',
      ['pending', 'has_more'],
    ),
    start: documented(startSchema.nullable().default(null))(
      'Where the first cursor comes from: a request before a full scan, or its last page. Null: read from the beginning.',
      [{ query: { since: 'now', limit: '0' }, cursor: 'last_seq' }, { walk: 'nextSyncUrl' }],
    ),
    expired: documented(goneSchema.prefault({ status: [400, 404, 410] }))(
      'Responses that mean that the cursor is unknown: everything is scanned again.',
      [{ status: [410] }, { status: [400], body: { path: 'error', contains: 'expired' } }],
    ),
  })
  .refine(({ next, last }) => (next === null) !== (last === null), {
    path: ['next'],
    error: 'expected where the next cursor comes from: either `next` or `last`',
  })
  .refine(({ url, last }) => !url || last === null, { path: ['last'], error: 'expected `next`, because url is true' })
  .refine(({ method: by, body: sent }) => by === 'POST' || sent === null, NEEDS_POST);

export type ChangeFeed = z.output<typeof changeFeedSchema>;
