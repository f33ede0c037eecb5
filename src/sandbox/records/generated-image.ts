import { createHash } from 'node:crypto';
import { spread } from './record-facts.ts';

/** The bytes of a generated image: a small SVG that names the image. */
export function imageBytes(id: string): Uint8Array {
  const hue = spread(id) % 360;
  return Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="320" height="240"><rect width="320" height="240" ` +
      `fill="hsl(${hue} 60% 50%)"/><text x="20" y="120">${id}</text></svg>\n`,
  );
}

/** Hex digest, as it stands in an image's record. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
