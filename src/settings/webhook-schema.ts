import { z } from 'zod';
import { byteSize, duration } from '../source/basic-fields.ts';
import type { WebhookSecret } from '../source/signature-secret.ts';

const secretText = z.string().min(1);

/** Written as a text, or as a map if it has an id or an end; parsed to `WebhookSecret`. */
const webhookSecretSchema = z
  .union([
    secretText,
    z.strictObject({
      value: secretText,
      id: z.string().min(1).optional().meta({ description: 'Name by which a delivery chooses it' }),
      until: z.iso.datetime({ offset: true }).optional().meta({ description: 'No longer accepted from then on' }),
    }),
  ])
  .transform((given): WebhookSecret => {
    if (typeof given === 'string') return { value: given };
    return { ...given, until: given.until === undefined ? undefined : Date.parse(given.until) };
  });

/** `sources.<name>.webhook`: how deliveries of a source are received and kept. */
export const webhookSchema = z
  .strictObject({
    secrets: z
      .array(webhookSecretSchema)
      .min(1)
      .meta({ description: 'Secrets that sign deliveries; all of them are accepted' }),
    public_url: z
      .url({ protocol: /^https?$/ })
      .optional()
      .meta({ description: 'Address at which the service sees the receiver, for schemes that sign it' }),
    max_body: byteSize.prefault('1MiB').meta({ description: 'Largest delivery' }),
    keep: duration
      .prefault('7d')
      .meta({ description: 'How long a delivery that is done is kept, also against repeats' }),
    attempts: z
      .int()
      .min(1)
      .max(50)
      .default(8)
      .meta({ description: 'Readings of a record before its delivery is dead' }),
    max_waiting: z
      .int()
      .min(1)
      .default(1_000_000)
      .meta({ description: 'Deliveries that may wait; further ones are answered with 503 and Retry-After' }),
    max_waiting_size: byteSize.prefault('1024MiB').meta({ description: 'Size of all deliveries that may wait' }),
  })
  .meta({ description: 'Receive webhooks at /webhooks/<source>; without it there is no such address' });
