import type { ResourceReport } from '../../../src/sync/report.ts';
import { clockShowing } from '../../support/hurried-clock.ts';
import { journey, type Journey } from '../../support/journey.ts';
import type { TestDatabase } from '../../support/databases.ts';
import type { Records } from './records.ts';
import { storyService, type StoryService } from './service.ts';
import { SET_ASIDE, type Step } from './story.ts';

export interface Told {
  stage: Journey;
  service: StoryService;
  /** Lets something happen and syncs; the run must be `ok`. */
  play(step: Step): Promise<void>;
}

/** A service that plays a story, and the copy that follows it. The machine's clock shows what the story says. */
export async function telling(database: TestDatabase, records: Records, content: object = {}): Promise<Told> {
  const service = await storyService(records);
  service.odd.push(...SET_ASIDE);
  const page = { page: { size: 1_000 } };
  const stage = await journey({
    database,
    source: { base_url: service.url },
    profile: {
      resources: { content: { state: 'status', ...content }, images: page, analytics: page },
    },
  });
  const clock = clockShowing(() => service.now);
  return {
    stage,
    service,
    play: async ({ at, command, resources, happens }) => {
      happens(service.records);
      service.now = Date.parse(at);
      const report = await stage.run(command, { resources, clock });
      const failed = report.resources.filter(isBad);
      if (failed.length > 0) throw new Error(`the sync of ${at} is not ok: ${JSON.stringify(failed)}`);
    },
  };
}

/** Rejected records, and views that keep their types for views of others, make a run a partial one. */
function isBad({ status, rejected, warnings = [] }: ResourceReport): boolean {
  const isHeld = warnings.some(({ code }) => code === 'view_held');
  return status !== (rejected > 0 || isHeld ? 'partial' : 'ok');
}
