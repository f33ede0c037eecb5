import v8 from 'node:v8';
import { expect, it } from 'vitest';
import { shapePages } from './shaping.ts';

/** The tag of an array without holes in V8's format of structured clones; one with holes is `a`, and takes thrice as long. */
const DENSE = 'A';
const HEADER_BYTES = 2;

it('makes cells that the engine sends to another thread as an array without holes', () => {
  const texts = Array.from({ length: 300 }, (_, at) => {
    const tags = Array.from({ length: at % 3 }, (__, tag) => `"t${tag}"`).join(',');
    return `{"id":"${at}","n":${at},"text":${at % 2 === 0 ? 'null' : '"x"'},"tags":[${tags}]}`;
  });
  const tags = shapePages([texts, texts, texts.slice(0, 7)]).map(({ rows }) =>
    rows.map(({ cells }) => String.fromCharCode(v8.serialize(cells)[HEADER_BYTES] ?? 0)),
  );
  expect(tags).toEqual([1, 2, 3].map(() => [DENSE, DENSE]));
});
