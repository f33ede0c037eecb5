import { availableParallelism } from 'node:os';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { memoryFolder } from './support/memory-folder.ts';

const memory = memoryFolder();

/** Files that wait long, for processes and leases: begun last, they would keep one core idle at the end. */
const SLOW =
  /\/(?:any-dialect|controls-elsewhere|dialects|drift-table|init-services|late-page|long-waits|lost-connections|memory|recorded-services|rotating|serve-secrets|serve-stop|serve-trouble|shared-budget-processes|two-processes|workers)\.test\.ts$/;

const isSlow = ({ moduleId }: TestSpecification): boolean => SLOW.test(moduleId);

/** Slow files first, then the order of vitest: the longest file first, or the largest as long as no durations are known. */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- the sequencer's own, which returns another list
    const sorted = await super.sort(files);
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}

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
    // The tests wait more than they compute: two cores take four files at once.
    maxWorkers: Math.max(4, availableParallelism()),
    sequence: { sequencer: SlowFirst },
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
