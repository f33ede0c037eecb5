import { defineConfig } from 'vitest/config';

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    setupFiles: ['support/fixed-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
