import { defineConfig } from 'vitest/config';

/** Programs that people read a warehouse with, installed for it: minutes, and only what can be had here. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['clients/*.clients.ts'],
    setupFiles: ['support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts'],
    testTimeout: 900_000,
    hookTimeout: 900_000,
    fileParallelism: false,
  },
});
