import { z } from 'zod';

const COLUMN = /^[^.\s"]+\.[^.\s"]+$/;

const column = z.string().regex(COLUMN, 'expected a column as table.column, such as content_tags.value');

/** Which columns point to the key of another resource, by the names that tables and columns have in the warehouse. */
export const relationsSchema = z
  .record(column, column.nullable())
  .default({})
  .transform((relations) =>
    Object.fromEntries(
      Object.entries(relations).flatMap(([from, to]): [string, string][] => (to === null ? [] : [[from, to]])),
    ),
  )
  .meta({
    description:
      'Columns that hold the key of another resource, as `table.column: resource.key`, by their names in the warehouse. Views, indexes and the dictionary follow from them. One whose columns are not there yet is left out, and told by `check`; null takes one of the profile that is extended away.',
    examples: [{ 'analytics.content_id': 'content.id', 'content_image_ids.value': 'images.id' }],
  });

export type Relations = z.output<typeof relationsSchema>;
