import { RequestsSpent } from './ask/asker.ts';
import { probeDeleted } from './experiments/deletes.ts';
import { probeFilter } from './experiments/filter.ts';
import { probeId } from './experiments/ids.ts';
import { probeItem } from './experiments/item.ts';
import { probePages } from './experiments/pages.ts';
import { probeTimes } from './experiments/times.ts';
import { probeView } from './experiments/views.ts';
import type { Stage, Subject } from './stage.ts';

/** One question to the service, and the field that stays a guess if it cannot be put any more. */
interface Experiment {
  run: (stage: Stage, subject: Subject, ids: readonly string[]) => Promise<void>;
  field: readonly string[];
  /** The safest reading. */
  otherwise: (stage: Stage) => unknown;
}

/** In their order: each builds on what those before have found. */
const EXPERIMENTS: readonly Experiment[] = [
  { run: probeView, field: ['query'], otherwise: () => ({}) },
  { run: probePages, field: ['page'], otherwise: pageLikeBefore },
  { run: probeTimes, field: ['updated'], otherwise: () => null },
  { run: probeItem, field: ['item'], otherwise: () => null },
  { run: probeFilter, field: ['incremental'], otherwise: () => null },
];

/** Finds out all that a profile says of one listing, as far as requests are left. */
export async function probeListing(stage: Stage, subject: Subject): Promise<void> {
  const { findings } = subject;
  const ids = probeId(stage, subject);
  for (const { run, field, otherwise } of EXPERIMENTS) {
    try {
      await run(stage, subject, ids);
    } catch (error) {
      if (!(error instanceof RequestsSpent)) throw error;
      if (field[0] !== 'query') findings.guessed(field, otherwise(stage), 'no request was left to try it');
    }
  }
  probeDeleted(subject);
}

function pageLikeBefore({ conventions }: Stage): unknown {
  const { page } = conventions;
  return page === null ? { style: 'single' } : { ...page.page, size: page.size };
}
