import type { ResourceReport } from '../../../src/sync/report.ts';
import { clockShowing } from '../../support/hurried-clock.ts';
import { journey, type Journey } from '../../support/journey.ts';
import type { TestDatabase } from '../../support/databases.ts';
import type { Records, Resource } from './records.ts';
import { storyService, type StoryService } from './service.ts';
import { SET_ASIDE, type Step } from './story.ts';

/** What the service held when a sync asked. */
export interface Asked {
  at: string;
  resources: readonly Resource[];
  records: Records;
}

export interface Told {
  stage: Journey;
  service: StoryService;
  /** Every sync so far, in order. */
  asked: Asked[];
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
  const asked: Asked[] = [];
  return {
    stage,
    service,
    asked,
    play: async ({ at, command, resources, happens }) => {
      happens(service.records);
      service.now = Date.parse(at);
      const report = await stage.run(command, { resources, clock });
      const failed = report.resources.filter(isBad);
      if (failed.length > 0) throw new Error(`the sync of ${at} is not ok: ${JSON.stringify(failed)}`);
      asked.push({ at, resources, records: copied(service.records) });
    },
  };
}

/** Rejected records, and views that keep their types for views of others, make a run a partial one. */
function isBad({ status, rejected, warnings = [] }: ResourceReport): boolean {
  const isHeld = warnings.some(({ code }) => code === 'view_held');
  return status !== (rejected > 0 || isHeld ? 'partial' : 'ok');
}

/** Records are replaced and never changed, so that their maps are enough. */
function copied({ content, images, analytics }: Records): Records {
  return { content: new Map(content), images: new Map(images), analytics: new Map(analytics) };
}
