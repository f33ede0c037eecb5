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

interface Keyed {
  id: string | string[];
  fields: Readonly<Record<string, { rename?: string | undefined }>>;
}

/** The columns of `relations` that refer to the key of a resource: they have its type. */
export function referencingColumns({
  resources,
  relations,
}: {
  resources: Readonly<Record<string, Keyed>>;
  relations: Relations;
}): string[] {
  return Object.entries(relations).flatMap(([from, to]) => {
    const [name = '', column = ''] = to.split('.');
    const target = Object.hasOwn(resources, name) ? resources[name] : undefined;
    if (target === undefined) return [];
    const { id, fields } = target;
    const key = typeof id === 'string' ? (fields[id]?.rename ?? id) : '_id';
    const isKey = typeof id === 'string' ? letters(key) === letters(column) : key === column;
    return isKey ? [from] : [];
  });
}

/** Without what may be written otherwise in the name of a column: `sys.contentId` is `sys_content_id`. */
function letters(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, '');
}
