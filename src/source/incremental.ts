import { z } from 'zod';
import { duration } from './duration-and-size.ts';
import { requestPlace } from './request-place.ts';

/** How to request what changed since a moment; null in a resource that has no such filter. */
export const incrementalSchema = z.strictObject({
  /** Where a request takes the moment. */
  param: requestPlace,
  /** How the moment is written: as the service writes it itself, or as a Unix time. */
  format: z.enum(['as_sent', 'iso', 'epoch_s', 'epoch_ms']).default('as_sent'),
  /** How far before the cursor the walk starts; covers late commits and ties. */
  overlap: duration.prefault('10m'),
});

/** How changes are found: the fields of a resource. */
export const incrementalFields = {
  /** The field with the time of a record's last change; null if there is none. */
  updated: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .nullable()
    .default('updated_at')
    .meta({
      description:
        "The field with the time of a record's last change, or several of which the first that is not null counts; " +
        'null if there is none.',
      examples: ['updated_at', ['date_updated', 'date_created']],
    }),
  incremental: incrementalSchema.nullable().default(null),
};

export type IncrementalProfile = z.output<typeof incrementalSchema>;
