import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import type { Json } from '../support/expected-rows.ts';
import { type Journey, journey, type JourneyOptions } from '../support/journey.ts';

export type JsonObject = { [key: string]: Json };

/** A record of the service by the text of its key; of a key of several fields, that is a JSON list. */
export interface TrueRecord {
  id: string;
  record: JsonObject;
}

/** A service that a shipped profile describes. */
interface ProfiledService {
  /** The shipped profile that is tried. */
  profile: string;
  baseUrl: string;
  /** Settings under `auth`. */
  auth: Record<string, unknown>;
  /** What the account's own collections add to the profile. */
  resources?: Record<string, unknown>;
}

/** A service and an empty warehouse, with the shipped profile between them. */
interface ServiceStage extends Journey {
  /** Everything in which the copy is not what the service holds of the resources, as sentences. */
  differences(truth: Readonly<Record<string, readonly TrueRecord[]>>): Promise<string[]>;
}

/** `over` is laid over the profile, the source's settings and all settings. */
export async function serviceStage(
  { baseUrl, auth, profile, resources = {} }: ProfiledService,
  database: TestDatabase,
  over: Pick<JourneyOptions, 'profile' | 'source' | 'settings'> = {},
): Promise<ServiceStage> {
  const stage = await journey({
    database,
    isNew: true,
    base: profile,
    profile: { resources, ...over.profile },
    source: { base_url: baseUrl, auth, ...over.source },
    settings: over.settings ?? {},
  });
  return {
    ...stage,
    differences: async (truth) => {
      const found: string[] = [];
      for (const [resource, records] of Object.entries(truth)) {
        found.push(...(await stage.read((db) => resourceDifferences(db, resource, records))));
      }
      return found;
    },
  };
}

function resourceDifferences(
  db: Parameters<typeof differences>[0],
  resource: string,
  records: readonly TrueRecord[],
): string[] {
  const list = () => records.map(({ id, record }) => ({ id, text: JSON.stringify(record) }));
  // A body is kept as the service wrote it, without what stands in its key besides.
  const bodies = !records.some(({ id }) => id.startsWith('['));
  return differences(db, { resources: () => [resource], list }, { bodies });
}
