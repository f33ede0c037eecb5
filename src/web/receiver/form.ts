import type { IncomingMessage } from 'node:http';
import type { RefusalReason } from './answer.ts';
import { FORM_TYPE, mediaTypeIn, readBody, type BodyBudget, type HeldBody } from './body.ts';

/** What came of a form: its text, or why it is not taken. */
export type ReadForm = { body: string } | { refused: RefusalReason } | 'gone';

/**
 * Reads the form of the page, which is small. Everything that no browser sends for it is refused before it is read.
 * `invite` lets a sender go on that asks before it sends the body.
 */
export async function readForm(
  request: IncomingMessage,
  { maxBytes, budget }: { maxBytes: number; budget: BodyBudget },
  invite: () => void,
): Promise<ReadForm> {
  const { 'content-type': type, 'content-encoding': coding, 'content-length': length } = request.headers;
  if (mediaTypeIn(type) !== FORM_TYPE || coding !== undefined) return { refused: 'content_type' };
  if (Number(length ?? 0) > maxBytes) return { refused: 'too_large' };
  invite();
  const held: HeldBody = { bytes: 0, cut: null };
  try {
    const body = await readBody(request, held, maxBytes, budget);
    if (body === 'gone') return 'gone';
    return typeof body === 'string' ? { refused: body } : { body: body.toString() };
  } finally {
    budget.release(held);
  }
}
