import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitest/config';

/** What reads and writes warehouses, and leaves the choice of the database to `TEST_DATABASE`. */
const ON_POSTGRES = [
  'faults/{bad-json,bad-records,deletes,limits,pagination,redirects,secrets,status,transport,waits}.test.ts',
  'journeys/{incremental,long-waits,long-walk,two-processes}.test.ts',
  'journeys/{serve,serve-kills,serve-limits,serve-stop,serve-webhooks}.test.ts',
  'sync/deletes/{older-states,soft-delete-gone}.test.ts',
  'sync/{filter/verify-filter,refetch,refused-state}.test.ts',
  'server/inbox/{drain,drain-ahead}.test.ts',
  'server/endpoints/receiver-kill.test.ts',
];

/** What a test file holds that is shorter, on one database of two, or in one process in place of two, in `npm test`. */
const SHORTER = /\/length\.ts'|\beitherDatabase\b|\bisInside\b|\/score-table\.ts'|\btestFaults\b/;

/** The tests of `npm test` that have a longer form within themselves. */
const AT_LENGTH = globSync('**/*.test.ts', { cwd: import.meta.dirname })
  .filter((file) => SHORTER.test(readFileSync(path.join(import.meta.dirname, file), 'utf8')))
  .toSorted();

const TEST_LENGTH = 'long';

/** The long versions of the loops that `npm test` runs shortly, and its own tests once more on Postgres: hours are fine. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    setupFiles: ['support/finish-file.ts'],
    globalSetup: ['support/global-postgres.ts'],
    testTimeout: 3_600_000,
    fileParallelism: false,
    projects: [
      { extends: true, test: { name: 'at length', include: AT_LENGTH, env: { TEST_LENGTH } } },
      {
        extends: true,
        test: { name: 'on postgres', include: ON_POSTGRES, env: { TEST_DATABASE: 'postgres', TEST_LENGTH } },
      },
    ],
  },
});
