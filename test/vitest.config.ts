import { existsSync, statfsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { defineConfig } from 'vitest/config';

/** Tests wait for the disk more than for anything else, and none of them cuts the power: in memory they take half as long. */
const MEMORY = '/dev/shm';
const ROOM_BYTES = 4 * 2 ** 30;

function isRoomy(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= ROOM_BYTES;
}

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    setupFiles: ['support/fixed-seed.ts', 'support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts', 'support/global-bundle.ts'],
    // Many tests start the command line: it need not be compiled each time.
    env: {
      NODE_COMPILE_CACHE: path.join(import.meta.dirname, '../node_modules/.cache/node'),
      ...(isRoomy(MEMORY) ? { TMPDIR: MEMORY } : {}),
    },
    // A process serves many files: what they share of `src` and of its libraries is loaded once. So a test leaves the
    // process as it found it, and nothing of ours may remember what a test before it did.
    isolate: false,
    restoreMocks: true,
    unstubEnvs: true,
    // The tests wait more than they compute: two cores take three files at once.
    maxWorkers: Math.max(3, availableParallelism()),
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
