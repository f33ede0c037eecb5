import { z } from 'zod';
import { fieldPath } from './body-path.ts';
import { deleteFeedSchema } from './delete-feed.ts';

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
  at: fieldPath.optional().meta({
    description: 'Dotted path of the time of the delete, if `field` itself is none.',
    examples: ['modified_gmt'],
  }),
});

/** The fields by which records say that they are deleted; null if there are none. */
export const deletedSchema = z
  .union([deletedFieldSchema, z.array(deletedFieldSchema).min(1)])
  .nullable()
  .default(null);

/** How a service states that records are deleted: the fields of a resource. */
export const deleteFields = {
  deleted: deletedSchema.meta({
    description:
      'Fields by which a record says of itself that it is deleted (a tombstone), wherever it is met: in a whole listing, in an incremental one, read alone. Its row is marked as deleted at the end of the run, at the time that the service names, without further confirmation, and held like all deletes if they are too many. A tombstone of a record without a row writes nothing; a record that is listed without it lives again.',
    examples: [
      { field: 'deletedAt' },
      { field: 'status', in: ['trash', 'archived'], at: 'modified_gmt' },
      [{ field: 'is_deleted' }, { field: 'state', in: ['removed'] }],
    ],
  }),
  delete_feed: deleteFeedSchema
    .nullable()
    .default(null)
    .meta({
      description:
        'A listing of its own that names deletes, read in every sync from where it was left, so that deletes arrive without a whole walk. A record that it names is read alone before its row is marked as deleted, as it may have been restored; where the profile has no `item`, the listing is asked, and the feed is believed if it is newer than the row.',
      examples: [
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
    }),
};
