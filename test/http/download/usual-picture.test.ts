import { fileTypeFromBuffer } from 'file-type';
import { describe, expect, it } from 'vitest';
import { usualPicture } from '../../../src/http/download/usual-picture.ts';
import { seeded } from '../../queue/limited-service.ts';
import { pngOf } from './stage.ts';

const JPEG = Buffer.from('ffd8ffe000104a46494600010100000100010000ffdb', 'hex');
const WEBP = Buffer.concat([Buffer.from('RIFF'), Buffer.alloc(4, 1), Buffer.from('WEBPVP8 '), Buffer.alloc(20)]);
const SEED = 20_261;

function animated(): Buffer {
  const still = pngOf(200);
  const control = Buffer.alloc(20);
  control.writeUInt32BE(8);
  control.write('acTL', 4, 'latin1');
  return Buffer.concat([still.subarray(0, 33), control, still.subarray(33)]);
}

describe('usual pictures', () => {
  it.each([
    ['a PNG', pngOf(200), 'image/png'],
    ['a JPEG', JPEG, 'image/jpeg'],
    ['a WebP', WEBP, 'image/webp'],
  ])('%s is told', (_, bytes, type) => expect(usualPicture(bytes)).toBe(type));

  it.each([
    ['an animated PNG', animated()],
    ['JPEG-LS', Buffer.concat([Buffer.from('ffd8fff7', 'hex'), Buffer.alloc(20)])],
    ['a sound in RIFF', Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVEfmt '), Buffer.alloc(20)])],
    ['a PNG whose pixels are still to come', pngOf(200).subarray(0, 33)],
    ['the first bytes of a PNG', pngOf(200).subarray(0, 12)],
  ])('%s is left to the library', (_, bytes) => expect(usualPicture(bytes)).toBeNull());

  it(`nothing is told but what the library tells, whatever is damaged (seed ${SEED})`, async () => {
    const random = seeded(SEED);
    for (let round = 0; round < 2_000; round += 1) {
      const bytes = Buffer.from([pngOf(120), animated(), JPEG, WEBP][round % 4] ?? '');
      for (let change = 0; change < round % 3; change += 1) {
        bytes[Math.floor(random() * Math.min(bytes.length, 64))] = Math.floor(random() * 256);
      }
      const told = usualPicture(bytes);
      const expected = told === null ? null : (await fileTypeFromBuffer(bytes))?.mime;
      expect([told, bytes.toString('hex')]).toEqual([expected, bytes.toString('hex')]);
    }
  });
});
