import type { FileHandle } from 'node:fs/promises';

/** More segments before the picture itself are no picture of anybody's. */
const MOST_SEGMENTS = 4_096;

/**
 * Where the frame header of a JPEG stands (ITU T.81, B.2.2), which may be megabytes behind its beginning: previews, depth
 * maps and colour profiles come first. Null if there is none. Reads a few bytes per segment.
 */
export async function findJpegFrame(handle: FileHandle, bytes: number): Promise<number | null> {
  const marker = Buffer.alloc(4);
  let at = 2;
  for (let segment = 0; segment < MOST_SEGMENTS && at + 4 <= bytes; segment += 1) {
    await handle.read({ buffer: marker, position: at });
    const [prefix, code = 0] = marker;
    if (prefix !== 0xff) return null;
    if (isFrame(code)) return at;
    // Any number of fill bytes may stand before a marker; some markers have no length.
    if (code === 0xff) at += 1;
    else if (code === 0x01 || (code >= 0xd0 && code <= 0xd8)) at += 2;
    else if (code === 0xda || code === 0xd9) return null;
    else at += 2 + marker.readUInt16BE(2);
  }
  return null;
}

/** SOF0 to SOF15 without DHT, JPG and DAC. */
function isFrame(code: number): boolean {
  return code >= 0xc0 && code <= 0xcf && code !== 0xc4 && code !== 0xc8 && code !== 0xcc;
}
