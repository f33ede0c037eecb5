import { defineConfig } from 'vitest/config';

/** What reads and writes warehouses, and leaves the choice of the database to `TEST_DATABASE`. */
const ON_POSTGRES = [
  'faults/{bad-json,bad-records,deletes,limits,pagination,redirects,secrets,starting,status,transport,waits}.test.ts',
  'journeys/{incremental,killed-figures,long-waits,long-walk,schedule,signals,two-processes}.test.ts',
  'journeys/{serve,serve-kills,serve-limits,serve-stop,serve-webhooks}.test.ts',
  'sync/{filter-proof,refetch,refused-state,soft-delete-gone}.test.ts',
  'trigger/{drain,drain-ahead}.test.ts',
  'web/receiver-kill.test.ts',
];

/** The long versions of the loops that `npm test` runs shortly, and its own tests once more on Postgres: hours are fine. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    setupFiles: ['support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts'],
    testTimeout: 3_600_000,
    fileParallelism: false,
    projects: [
      { extends: true, test: { name: 'soak', include: ['**/*.soak.ts'] } },
      { extends: true, test: { name: 'on postgres', include: ON_POSTGRES, env: { TEST_DATABASE: 'postgres' } } },
    ],
  },
});
