import { z } from 'zod';
import { eventFieldSchema } from './delivery-field.ts';
import { bodyPath } from './body-path.ts';
import { signatureSchema } from './signature-scheme.ts';

/** `content.*`: a star matches any text. */
const kindPattern = z.string().min(1);

/** How a webhook is verified and read. It is only ever a hint: the record is read again from the service. */
export const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Path of the body's list of events; null if one delivery is one event. */
  events: bodyPath.nullable().default(null),
  /** The kind of event; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type'),
  /** The resource, by the service's own name. */
  resource: eventFieldSchema.nullable().prefault('json:data.resource'),
  /** The service's name for a resource, if it is not the profile's. */
  resource_names: z.record(z.string(), z.string()).default({}),
  /** Resource by event kind, checked before `resource`; the first pattern that matches. */
  kinds: z.record(kindPattern, z.string()).default({}),
  /** The record's id. */
  id: eventFieldSchema.prefault('json:data.id'),
  /** The record's time of change after the event, if the event holds it: an older reading is read again. */
  updated: eventFieldSchema.nullable().prefault('json:data.updated_at'),
  /** Kinds that mean that a record is gone. */
  deleted: z.array(kindPattern).default(['*.deleted']),
});

export type WebhookProfile = z.output<typeof webhooksSchema>;
