import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { packed } from './answer-shapes.ts';
import { CONTAINER_MIB, serveAgainst } from './hostile-answers.ts';
import { longOrShort } from '../support/length.ts';

const MB = 1_000_000;
/** Of bodies that cost as much time as memory; the soak sends each shape in all sizes. */
const SLOW_BYTES = longOrShort(15, 4) * MB;

describe.skipIf(!existsSync('/proc/self/status'))('in a container of 512 MiB', () => {
  it('answers that are small on the wire and large in memory fail their own walks and nothing else', async () => {
    const survived = await serveAgainst([
      packed('empty arrays as records', 'gzip', 15 * MB),
      packed('small numbers behind a long one', 'br', 15 * MB),
      packed('a decimal of megabytes', 'deflate', SLOW_BYTES),
      packed('a text in another script', 'identity', SLOW_BYTES),
      packed('nothing but spaces', 'gzip, gzip', 100 * MB),
      packed('nested objects', 'zstd', SLOW_BYTES),
      ...longOrShort(
        [
          packed('records of a field of their own', 'gzip', SLOW_BYTES),
          packed('many small records', 'zstd, br', SLOW_BYTES),
        ],
        [],
      ),
    ]);
    expect(survived.outcomes).toMatchObject({
      s0: 'too_many_values',
      s1: 'too_many_values',
      s2: 'too_many_digits',
      s3: 'ok',
      s4: 'body_too_large',
      shonest: 'ok',
    });
    expect(survived.hints.get('too_many_values')).toContain('http.max_values');
    expect(survived.peakMib).toBeLessThan(CONTAINER_MIB);
    expect(survived.end).toEqual({ code: 0, signal: null });
  }, 300_000);
});
