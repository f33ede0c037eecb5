import { z } from 'zod';
import { deletedSchema, entryFilter, goneSchema, type DeleteFeed } from './delete-fields.ts';
import { documented, bodyPath, fieldPath, recordsPath, templateSchema } from './basic-fields.ts';
import { NEEDS_POST, requestFields } from './request-fields.ts';

/** A path in the body, or `header:<name>`. */
const answerPlace = z.string().min(1);
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
    cursor: answerPlace.meta({
      description: 'Where the response has the current end of the feed.',
      examples: ['last_seq', 'header:X-Sequence'],
    }),
  }),
  z.strictObject({
    walk: answerPlace.meta({
      description: 'Where the last page of a full scan has the first cursor.',
      examples: ['nextSyncToken'],
    }),
  }),
]);

/** Changes by a place in a feed that is kept between runs, in place of a filter by time. */
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
    next: documented(answerPlace.nullable().default(null))(
      'Where the response has the next cursor: a path, or `header:` and a name.',
      ['last_seq', 'nextSyncUrl'],
    ),
    last: documented(fieldPath.nullable().default(null))(
      'Instead of `next`: the field of the last entry that is the next cursor.',
      ['id'],
    ),
    next_page: documented(answerPlace.nullable().default(null))(
      'Where a response names its next page, `{page}` in templates; the last one names the cursor.',
      ['nextPageToken'],
    ),
    url: documented(z.boolean().default(false))('True if `next`, `next_page` and `start` are URLs.', [true]),
    more: documented(answerPlace.nullable().default(null))(
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

/** The fields of a resource that name its key, and those of its feeds. */
interface Keyed {
  id: string | readonly string[];
  delete_feed: Pick<DeleteFeed, 'id'> | null;
  feed: Pick<ChangeFeed, 'id'> | null;
}

/**
 * Why the entries of a feed name no row of the resource: their id has fewer or more parts than the key, of which the field
 * of a partition is one. Null if it has as many, or there is no feed.
 */
export function feedKeyFault({ id, delete_feed, feed }: Keyed): { path: string[]; message: string } | null {
  const named: readonly [string[], string | readonly string[] | null][] = [
    [['delete_feed', 'id'], delete_feed?.id ?? null],
    [['incremental', 'id'], feed?.id ?? null],
  ];
  const found = named.find(([, parts]) => parts !== null && !isAlike(parts, id));
  if (found === undefined) return null;
  const wanted =
    typeof id === 'string' ? 'one field' : `a list of ${id.length} fields, where an entry names ${id.join(' and ')}`;
  return { path: found[0], message: `expected ${wanted}, because the key of a row is made of them` };
}

function isAlike(parts: string | readonly string[], id: string | readonly string[]): boolean {
  if (typeof parts === 'string' || typeof id === 'string') return typeof parts === typeof id;
  return parts.length === id.length;
}
