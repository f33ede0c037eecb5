import type { SyncCommand } from '../../src/sync/plan.ts';
import type { ResourceReport } from '../../src/sync/report.ts';
import { clockShowing } from './hurried-clock.ts';
import { journey, type Journey, type JourneyOptions } from './journey.ts';
import { smallService, type Behaviour, type SmallService } from './small-service.ts';

/** The profile that fits a small service. */
const FITS = {
  page: { style: 'page', page_param: 'page', size: 10, total: 'total' },
  incremental: { param: 'updated_since', lookback: '10m' },
  history: 'all',
};

export interface SmallStage extends Journey {
  service: SmallService;
  /** Lays other fields over the profile of the resource; holds from the next run on. */
  setResource(fields: Record<string, unknown>): void;
  /** A run of the resource, a second later by the service's clock, and by ours; `asked` is what it asked for. */
  walk(command?: SyncCommand): Promise<ResourceReport & { asked: string[] }>;
  /** Everything in which the live rows are not the service's records. */
  unlike(): Promise<string[]>;
}

/** A small service, a profile that fits it but for `fields`, and an empty warehouse. */
export async function smallStage(
  behaviour: Behaviour,
  fields: Record<string, unknown> = {},
  options: Pick<JourneyOptions, 'database' | 'source'> & { top?: Record<string, unknown> } = {},
): Promise<SmallStage> {
  const service = await smallService(behaviour);
  const clock = clockShowing(() => service.now);
  const profileOf = (more: Record<string, unknown>) => ({
    ...options.top,
    resources: { content: { ...FITS, ...more }, images: null, analytics: null },
  });
  const stage = await journey({
    ...(options.database === undefined ? {} : { database: options.database }),
    profile: profileOf(fields),
    source: { base_url: service.url, ...options.source },
  });
  return {
    ...stage,
    setSource: (more) => stage.setSource({ ...options.source, ...more, base_url: service.url }),
    service,
    setResource: (more) => stage.setProfile(profileOf(more)),
    walk: async (command = 'sync') => {
      service.now += 1_000;
      service.asked();
      const { resources } = await stage.run(command, { clock });
      if (resources[0] === undefined) throw new Error('no resource was run');
      return { ...resources[0], asked: service.asked() };
    },
    unlike: async () => {
      const wanted = [...service.records.values()].map(({ id, title }) => `${id} ${title}`).toSorted();
      const rows = await stage.column<string>("SELECT id || ' ' || title FROM content WHERE _deleted_at IS NULL");
      const [there, here] = [new Set(wanted), new Set(rows)];
      return [...here.symmetricDifference(there)].toSorted();
    },
  };
}
