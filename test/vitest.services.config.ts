import { defineConfig } from 'vitest/config';

/** Shipped profiles against the real services, started by scripts: minutes, and only where they are installed. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['services/*.services.ts'],
    setupFiles: ['support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts'],
    testTimeout: 1_800_000,
    fileParallelism: false,
  },
});
