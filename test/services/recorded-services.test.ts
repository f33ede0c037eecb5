import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { eitherDatabase } from '../support/databases.ts';
import { serviceStage } from './service-stage.ts';
import { readRecording, startReplay } from './recording.ts';

const FOLDER = path.join(import.meta.dirname, 'recorded');
const RECORDED = existsSync(FOLDER) ? readdirSync(FOLDER).map((file) => file.replace('.json.gz', '')) : [];

describe.each(RECORDED)('%s, as it was recorded', (name) => {
  it.for(eitherDatabase(name))('is what the copy holds after each run, on %s', async (database) => {
    const recording = readRecording(name);
    const secrets = Object.values(recording.auth).map(String);
    const replay = await startReplay(secrets);
    const stage = await serviceStage({ ...recording, baseUrl: replay.url }, database);
    for (const run of recording.runs) {
      replay.play(run);
      const report = await stage.run(run.command, { clock: clockAt(replay.now) });
      const told = report.resources.flatMap(({ error = [], warnings = [] }) => [error, warnings].flat());
      // That an empty listing was requested without parameters is of a later version than the recording.
      expect(told.filter(({ code }) => code !== 'listing_empty')).toEqual([]);
      // A page may be asked for ahead of its turn that was not asked for when it was recorded: it only counts if it is needed.
      expect({ status: report.status, unknown: replay.unknown }).toMatchObject({ status: 'ok' });
      expect(await stage.differences(run.truth)).toEqual([]);
    }
  });
});

/** The clock of the time in which it was recorded; nothing is waited for. */
function clockAt(now: () => number): Clock {
  let slept = 0;
  return {
    now,
    monotonic: () => performance.now() + slept,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      slept += ms;
      await nextTurn();
    },
  };
}
