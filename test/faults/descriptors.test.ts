import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { MAIN } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import { journey, type Journey } from '../support/journey.ts';
import { sampled } from '../support/length.ts';

/** Many requests at once, each with a connection of its own; gives up soon where none is to be had. */
const EAGER = { http: { concurrency: 8, attempts: 2 } };
const RECORDS = { content: 1_000, images: 100, analytics: 1_000 };

function eager(): Promise<Journey> {
  const sandbox = { generate: RECORDS, pagination: 'page', latency: 10 } as const;
  return journey({ base: 'content-service-page', profile: EAGER, sandbox });
}

/** The real command line, which may open so many files at once. */
function backfillWith(files: number, { config }: Journey) {
  return startScript(pathToFileURL(MAIN), ['backfill', '--config', config], `ulimit -n ${files}; exec`).ended;
}

describe('a process that may open few files', () => {
  it('F153 64 are enough for a whole backfill', async () => {
    const stage = await eager();
    expect(await backfillWith(64, stage)).toMatchObject({ code: 0, stderr: '' });
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });

  // Fewer than these, and Node itself cannot load its modules.
  it.each(sampled([26, 24], 2))(
    'F153 with %i it succeeds or says what is wrong, and the next run has it all',
    async (files) => {
      const stage = await eager();
      const { code, signal, stderr } = await backfillWith(files, stage);
      expect(signal).toBe(null);
      expect(code === 0 ? 'EMFILE' : stderr).toMatch(/EMFILE|too many open files|ulimit -n/);
      expect(stderr).not.toContain('"code":"bug"');
      expect(await stage.command('backfill')).toMatchObject({ code: 0, stderr: '' });
      expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
      expect(await stage.read((db) => db.pragma('integrity_check'))).toEqual([{ integrity_check: 'ok' }]);
    },
  );
});
