import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CODECS, packed, SHAPES } from './answer-shapes.ts';
import { CONTAINER_MIB, serveAgainst } from './hostile-answers.ts';

/** Bytes of a body once it is unpacked: under all bounds, around them, and beyond. */
const SIZES = [100_000, 400_000, 1_500_000, 6_000_000, 16_000_000, 60_000_000];

describe.skipIf(!existsSync('/proc/self/status'))('in a container of 512 MiB, eight answers at once', () => {
  describe.each(Object.keys(SHAPES))('%s', (shape) => {
    it.each(SIZES)('%i bytes, in each codec', async (bytes) => {
      for (const encoding of Object.keys(CODECS)) {
        const body = packed(shape, encoding, bytes);
        const survived = await serveAgainst(Array.from({ length: 8 }, () => body));
        expect.soft(survived.outcomes, encoding).toMatchObject({ shonest: 'ok' });
        expect.soft(survived.peakMib, encoding).toBeLessThan(CONTAINER_MIB);
        expect.soft(survived.end, encoding).toEqual({ code: 0, signal: null });
      }
    });
  });
});
