import { z } from 'zod';

/** `serve`: the page, the metrics and the receiver. */
export const serveSchema = z
  .strictObject({
    host: z.string().min(1).default('127.0.0.1').meta({ description: 'Address that `serve` listens on' }),
    port: z.int().min(0).max(65_535).default(8080),
    hosts: z
      .array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'expected a name such as status.example.com'))
      .default([])
      .meta({
        description: 'Names by which browsers know the page, where no auth is set and the name is a public one',
      }),
    public_url: z
      .url({ protocol: /^https?$/, error: 'expected an http(s) URL such as https://sync.example.com' })
      .optional()
      .meta({
        description: 'Address at which people see the page, for links in alerts',
        examples: ['https://sync.example.com'],
      }),
    auth: z
      .strictObject({
        user: z.string().regex(/^[^:]+$/, 'expected a name without a colon'),
        password: z.string().min(1),
      })
      .optional()
      .meta({ description: 'Basic authentication for the status page and the metrics' }),
  })
  .meta({ description: 'The status page, the metrics and the webhook receiver of `serve`' });

/** `worker`: its health and metrics. */
export const workerSchema = z
  .strictObject({
    host: z.string().min(1).default('127.0.0.1').meta({ description: 'Address that `worker` listens on' }),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .nullable()
      .default(8081)
      .meta({ description: 'Its port; 0 picks a free one, null listens nowhere' }),
    range_pages: z.unknown().optional().meta({
      deprecated: true,
      description: 'Deprecated and ignored: each listing is read by one process.',
    }),
  })
  .meta({ description: 'Health and metrics of `worker`; hosts and auth are those of serve' });
