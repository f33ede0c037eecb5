import { availableParallelism } from 'node:os';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { memoryFolder } from './support/memory-folder.ts';

const memory = memoryFolder();

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    setupFiles: ['support/fixed-seed.ts', 'support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts', 'support/global-build.ts'],
    // Many tests start the command line: it need not be compiled each time.
    env: {
      NODE_COMPILE_CACHE: path.join(import.meta.dirname, '../node_modules/.cache/node'),
      ...(memory === null ? {} : { TMPDIR: memory }),
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
