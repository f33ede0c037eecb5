const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const IHDR_BYTES = 13;
/** Of a chunk, by the format. */
const MOST_BYTES = 0x7f_ff_ff_ff;
/** Length, type and check sum of a chunk. */
const CHUNK_BYTES = 12;

/**
 * The type of a JPEG, a PNG and a WebP by their first bytes, null for all else: most files that are fetched are one of
 * them, and a library that knows hundreds of types compares with each before. An animated PNG is left to it.
 */
export function usualPicture(head: Buffer): string | null {
  if (head.length < 16) return null;
  // What 0xf7 follows is JPEG-LS.
  if (head[0] === 0xff && head[1] === 0xd8 && head[2] === 0xff && head[3] !== 0xf7) return 'image/jpeg';
  if (head.compare(PNG, 0, PNG.length, 0, PNG.length) === 0) return isStill(head) ? 'image/png' : null;
  return head.toString('latin1', 0, 4) === 'RIFF' && head.toString('latin1', 8, 12) === 'WEBP' ? 'image/webp' : null;
}

/** True if the first chunk is the header, and no animation is told of before the pixels begin. */
function isStill(head: Buffer): boolean {
  for (let at = PNG.length; at + CHUNK_BYTES <= head.length;) {
    const bytes = head.readUInt32BE(at);
    const type = head.toString('latin1', at + 4, at + 8);
    const isHeader = type === 'IHDR';
    if ((at === PNG.length && !isHeader) || (isHeader && bytes !== IHDR_BYTES) || bytes > MOST_BYTES) return false;
    if (type === 'IDAT' || type === 'acTL') return type === 'IDAT';
    at += bytes + CHUNK_BYTES;
  }
  return false;
}
