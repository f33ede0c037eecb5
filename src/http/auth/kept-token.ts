import { z } from 'zod';

/** What is kept of a token: an access token, the refresh token for the next one, and whether that one was refused. */
export interface KeptToken {
  access: string | null;
  refresh: string | null;
  isRefused: boolean;
}

const NOTHING: KeptToken = { access: null, refresh: null, isRefused: false };

const keptSchema = z.strictObject({
  access: z.string().nullable(),
  refresh: z.string().nullable(),
  isRefused: z.boolean(),
});

/** An access token alone is kept as it is: it never begins with a brace. */
export function keptText(kept: KeptToken): string {
  const isAlone = kept.refresh === null && !kept.isRefused && kept.access !== null;
  return isAlone ? String(kept.access) : JSON.stringify(kept);
}

/** Nothing for a text that is null or not ours. */
export function readKept(text: string | null): KeptToken {
  if (text === null) return NOTHING;
  if (!text.startsWith('{')) return { ...NOTHING, access: text };
  return keptSchema.safeParse(JSON.parse(text)).data ?? NOTHING;
}
