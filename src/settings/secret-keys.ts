import { z } from 'zod';

/** Of a source. */
export const hashKey = z.string().min(16, 'expected a secret of at least 16 characters').optional().meta({
  description:
    'The secret under which fields are hashed that the profile says `hash: true` of; `privacy_key` where absent',
});

/** Of all sources. */
export const privacyKey = z
  .string()
  .min(16, 'expected a secret of at least 16 characters')
  .optional()
  .meta({
    description:
      'The secret under which `forget` keeps the fingerprints of what it has erased; also the `hash_key` of sources that have none. Kept for as long as the warehouse: without it nothing keeps erased records from coming back, so runs refuse',
    examples: ['${CONTENT_PRIVACY_KEY}'],
  });
