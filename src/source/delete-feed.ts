import { z } from 'zod';
import { fieldPath } from './body-path.ts';
import { isTimeZone } from '../model/time-zone.ts';
import { incrementalSchema } from './incremental.ts';
import { pageSchema } from './page-style.ts';
import { recordFields } from './record-fields.ts';
import { requestFields } from './request-fields.ts';
import { variablesIn } from './template.ts';

const { format, overlap } = incrementalSchema.shape;

const deleteFeedFields = z.strictObject({
  ...requestFields,
  page: pageSchema
    .nullable()
    .default(null)
    .meta({
      description: "How this listing is cut into pages; null: like the resource's own.",
      examples: [{ style: 'page', size: 100 }],
    }),
  records: recordFields.records.meta({
    description: "Path of the array of entries in a page's body; the empty string if the body is the array.",
    examples: ['data'],
  }),
  id: z
    .union([fieldPath, z.array(fieldPath).min(1)])
    .meta({ description: 'Where an entry names the id of the deleted record.', examples: ['item'] }),
  at: fieldPath
    .nullable()
    .default(null)
    .meta({
      description:
        'Where an entry names the time of the delete; null if it does not: then all of it is read each time.',
      examples: ['timestamp'],
    }),
  zone: z
    .string()
    .refine(isTimeZone, 'expected a time zone such as Europe/Zurich or +02:00')
    .nullable()
    .default(null)
    .meta({ description: 'Zone of `at` where that names none; null: UTC.', examples: ['Europe/Zurich'] }),
  filter: z
    .array(z.strictObject({ field: fieldPath, in: z.array(z.union([z.string(), z.number(), z.boolean()])).min(1) }))
    .default([])
    .meta({
      description: 'Entries in which one of these fields has none of its values are about something else.',
      examples: [[{ field: 'collection', in: ['articles'] }]],
    }),
  format: format.meta({
    description: 'How `{since}` is written, as in `incremental.format`.',
    examples: ['iso', 'epoch_s', 'yyyy-MM-dd HH:mm:ss'],
  }),
  overlap: overlap.meta({
    description: 'How far before the last known delete the next reading begins.',
    examples: ['10m'],
  }),
});

/** A listing of deletes, beside that of the records. */
export const deleteFeedSchema = deleteFeedFields
  .refine(({ at, ...request }) => at !== null || !holdsSince(request), {
    path: ['at'],
    error: 'expected the field with the time of the delete, because {since} goes by it',
  })
  .refine(({ method, body }) => method === 'POST' || body === null, {
    path: ['method'],
    error: 'expected POST, because a request by GET has no body',
  });

/** True if a request of the feed can ask for what came since a moment. */
function holdsSince({ path, query, headers, body }: Record<string, unknown>): boolean {
  const texts = [path, query, headers, body].flatMap(textsIn);
  return texts.some((text) => variablesIn(text).includes('since'));
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

export type DeleteFeed = z.output<typeof deleteFeedSchema>;
