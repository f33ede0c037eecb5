import { defineConfig } from 'vitest/config';

/** What reads and writes warehouses, and leaves the choice of the database to `TEST_DATABASE`. */
const ON_POSTGRES = [
  'faults/{bad-json,bad-records,deletes,limits,pagination,redirects,secrets,starting,status,transport,waits}.test.ts',
  'journeys/{incremental,killed-figures,long-waits,long-walk,schedule,signals,two-processes}.test.ts',
  'journeys/{serve,serve-kills,serve-limits,serve-stop,serve-webhooks}.test.ts',
  'sync/deletes/{older-states,soft-delete-gone}.test.ts',
  'sync/{filter/prove-filter,refetch,refused-state}.test.ts',
  'trigger/{drain,drain-ahead}.test.ts',
  'web/receiver-kill.test.ts',
];

/** What `npm test` runs shortly and that has no `*.soak.ts`: it looks at `TEST_LENGTH` itself. */
const AT_LENGTH = [
  'cli/{demo,reading}.test.ts',
  'export/{blog,kills,memory}.test.ts',
  'http/download/{contents,large-files}.test.ts',
  'faults/{answer-memory,bad-json,bad-records,linear-time,pagination,postgres,redirects,secrets,set-back,status,waits}.test.ts',
  'http/auth/{rotating,shared-token}.test.ts',
  'journeys/{report-drop-kills,short-tokens}.test.ts',
  'load/{child-rows,reshape}.test.ts',
  'queue/{pace,shared-budget,shared-budget-processes}.test.ts',
  'sandbox/blog.test.ts',
  'sync/walk/damaged-walk.test.ts',
  'views/every-object.test.ts',
  'warehouse/{disk-full,migrate,names-in-statements,values,widening-kills,widening-vacuum}.test.ts',
  'warehouse/postgres/**/{grow-tables,opening,schema-strangers}.test.ts',
];

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
      { extends: true, test: { name: 'soak', include: ['**/*.soak.ts'], env: { TEST_LENGTH } } },
      { extends: true, test: { name: 'at length', include: AT_LENGTH, env: { TEST_LENGTH } } },
      {
        extends: true,
        test: { name: 'on postgres', include: ON_POSTGRES, env: { TEST_DATABASE: 'postgres', TEST_LENGTH } },
      },
    ],
  },
});
