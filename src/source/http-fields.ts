import { z } from 'zod';
import { byteSize, duration } from './duration-and-size.ts';

/** Bounds of requests and answers: the field `http` of a profile. */
export const httpSchema = z.strictObject({
  /** Until the answer's headers are there. */
  headers_timeout: duration.prefault('30s').meta({ examples: ['10s'] }),
  /** For one attempt as a whole, body included. */
  timeout: duration.prefault('2m').meta({ examples: ['5m'] }),
  /** Attempts per request, the first one included. */
  attempts: z
    .int()
    .min(1)
    .max(20)
    .default(6)
    .meta({ examples: [3] }),
  /** Unpacked bytes of one answer. */
  max_body: byteSize.prefault('16MiB').meta({ examples: ['64MiB'] }),
  /** Values of one answer, on all levels together: parsed, each may take a hundred bytes. */
  max_values: z
    .int()
    .min(1)
    .max(100_000_000)
    .default(2_000_000)
    .meta({ examples: [5_000_000] }),
  /** Characters of all numbers of sixteen digits and more in one answer: they are kept as text. */
  max_digits: z
    .int()
    .min(1)
    .max(1_000_000_000)
    .default(1_000_000)
    .meta({ examples: [5_000_000] }),
  /** Requests that each process may have under way at once, to one origin. */
  concurrency: z
    .int()
    .min(1)
    .max(64)
    .default(8)
    .meta({ examples: [2] }),
  /** The same of all processes on one database together; null: as many as each of them may have. */
  concurrency_total: z
    .int()
    .min(1)
    .max(4_096)
    .nullable()
    .default(null)
    .meta({ examples: [2] }),
});
