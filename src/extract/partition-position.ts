import { z } from 'zod';
import { ConfigError } from '../model/errors.ts';
import type { Doubt } from './guards/walk-end.ts';
import type { PagePosition } from './page.ts';

/** The place of a walk over several listings besides the place within the one in hand. */
export interface PartitionPlace {
  partition: string;
  /** Records that the walk has met in this listing. */
  records: number;
  /** The smallest total that it told; null if it told none. */
  leastTotal: number | null;
  /** What speaks against the listings before it. */
  doubts: readonly Doubt[];
}

/** A position taken apart: `place` is null if the resource has one listing. */
export interface SplitPosition {
  place: PartitionPlace | null;
  /** Within the listing; empty for its beginning. */
  inner: PagePosition;
}

const placeSchema = z.tuple([
  z.string(),
  z.int().min(0),
  z.int().min(0).nullable(),
  z.array(
    z.strictObject({
      code: z.enum(['unproved', 'fewer', 'slipped', 'entered', 'unwatched', 'cached', 'unread']),
      message: z.string(),
      hint: z.string(),
    }),
  ),
]);

/** A position of a page alone has no blank. */
const SPLIT = /^\/(\S*) (.*)$/s;

/** One text for both, which begins like a path. */
export function joinPosition({ partition, records, leastTotal, doubts }: PartitionPlace, inner: PagePosition): string {
  return `/${encodeURIComponent(JSON.stringify([partition, records, leastTotal, doubts]))} ${inner}`;
}

/** Reads what `joinPosition` wrote, and any other position. Throws `ConfigError` (`bad_position`) for a damaged one. */
export function splitPosition(position: PagePosition): SplitPosition {
  const [, place, inner = ''] = SPLIT.exec(position) ?? [];
  if (place === undefined) return { place: null, inner: position };
  const read = placeSchema.safeParse(parsed(place));
  if (!read.success) throw damaged(position);
  const [partition, records, leastTotal, doubts] = read.data;
  return { place: { partition, records, leastTotal, doubts }, inner };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(decodeURIComponent(text));
  } catch {
    return null;
  }
}

function damaged(position: PagePosition): ConfigError {
  return new ConfigError('bad_position', `The stored page position ${JSON.stringify(position)} cannot be read`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}
