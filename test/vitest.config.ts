import { availableParallelism } from 'node:os';
import path from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    setupFiles: ['support/fixed-seed.ts'],
    globalSetup: ['support/global-postgres.ts'],
    // Many tests start the command line: it need not be compiled each time.
    env: { NODE_COMPILE_CACHE: path.join(import.meta.dirname, '../node_modules/.cache/node') },
    // The tests wait more than they compute: two cores take three files at once.
    maxWorkers: Math.max(3, availableParallelism()),
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
