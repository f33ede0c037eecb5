import { z } from 'zod';

/** Spaces, controls and anything outside printable ASCII are not allowed in an Authorization header. */
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/;

/** A credential that is valid in a header: not empty, printable ASCII, so without a secret file's line break. */
const secret = z.string().regex(PRINTABLE_ASCII, {
  // The value itself must never appear in a message.
  error: 'expected a secret of printable characters without spaces or line breaks',
});

/** How a source authenticates. A new way is a new entry here and a case in `http/auth/create-credentials.ts`. */
export const authSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('api_key'), key: secret }),
  z.strictObject({
    type: z.literal('oauth'),
    client_id: secret,
    client_secret: secret,
    scope: z.string().min(1).optional(),
    /** Whole URL of the token endpoint; the profile's `token_path` below the base URL if absent. */
    token_url: z.url({ protocol: /^https?$/ }).optional(),
  }),
]);

export type AuthSettings = z.output<typeof authSchema>;
