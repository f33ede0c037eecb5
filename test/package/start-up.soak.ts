import path from 'node:path';
import { expect, it } from 'vitest';
import { buildInto, run, tempFolder } from './built.ts';

const ROUNDS = 31;

it('the installed `content-sync --version` takes at most twice as long as `node -e 0`', () => {
  const app = tempFolder();
  buildInto(app);
  const main = path.join(app, 'dist/src/main.js');
  const took = (...args: string[]): number => {
    const began = performance.now();
    expect(run(process.execPath, args, app).status).toBe(0);
    return performance.now() - began;
  };
  // In turns, so that whatever else the machine does meets both alike.
  const rounds = Array.from({ length: ROUNDS }, () => ({ bare: took('-e', '0'), version: took(main, '--version') }));
  const [bare, version] = [median(rounds.map((round) => round.bare)), median(rounds.map((round) => round.version))];
  console.log(
    `node -e 0: ${bare.toFixed(1)} ms, --version: ${version.toFixed(1)} ms, ratio ${(version / bare).toFixed(2)}`,
  );
  expect(version / bare).toBeLessThan(2);
});

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
