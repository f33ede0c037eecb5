import { expect, it } from 'vitest';
import { logStream, lostLines, reportLostLines, type LineSink } from '../../src/observe/log.ts';

/** A sink that takes lines, or is full, gone or broken. */
function sink(): LineSink & { lines: string[]; writableLength: number; writable: boolean; isBroken: boolean } {
  const made = {
    lines: [] as string[],
    writableLength: 0,
    writable: true,
    isBroken: false,
    write: (text: string) => {
      if (made.isBroken) throw new Error('disk full');
      made.lines.push(text);
    },
  };
  return made;
}

it.each([
  ['full', { writableLength: 4_194_304 }, { writableLength: 0 }],
  ['gone', { writable: false }, { writable: true }],
  ['broken', { isBroken: true }, { isBroken: false }],
])('lines to a sink that is %s are dropped, counted, and reported by the next line', (_, fault, cure) => {
  const to = Object.assign(sink(), fault);
  const stream = logStream(to);
  stream.write('1\n');
  stream.write('2\n');
  Object.assign(to, cure);
  stream.write('3\n');
  expect(lostLines(to)).toBe(2);
  expect(to.lines).toEqual([expect.stringMatching(/^\{"level":"warn",.*"lines":2,.*\}\n3\n$/s)]);
});

it('lines that no later line has reported are reported at the end, once', () => {
  const to = sink();
  const stream = logStream(to);
  to.writable = false;
  stream.write('1\n');
  to.writable = true;
  reportLostLines(to);
  reportLostLines(to);
  expect(to.lines).toHaveLength(1);
});

it('logs to one sink count together', () => {
  const to = sink();
  expect(logStream(to)).toBe(logStream(to));
  expect(lostLines(sink())).toBe(0);
});
