import { textHash } from '../shape/records/fingerprint.ts';

const MAX_NAME_BYTES = 63;
const HASH_LENGTH = 8;

/** A name that is not too long; of one that is, the beginning with a hash of it behind. */
export function cutName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  const space = Buffer.alloc(MAX_NAME_BYTES - HASH_LENGTH - 1);
  const { read } = new TextEncoder().encodeInto(name, space);
  return `${name.slice(0, read)}_${textHash(name).slice(0, HASH_LENGTH)}`;
}
