import { defineConfig } from 'vitest/config';

/** The long versions of the loops that `npm test` runs shortly: hours are fine here. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['**/*.soak.ts'],
    globalSetup: ['support/global-postgres.ts'],
    testTimeout: 3_600_000,
    fileParallelism: false,
  },
});
