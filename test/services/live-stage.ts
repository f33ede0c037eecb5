import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import { type Journey, journey, type JourneyOptions } from '../support/journey.ts';
import type { LiveService, TrueRecord } from './live-service.ts';

/** Where the scripts stand that install and start real services; beside the repository unless the variable says so. */
const SCRIPTS = process.env['CONTENT_SERVICES'] ?? path.join(import.meta.dirname, '../../../shared/services');

/** Where they keep what they installed. */
export const LAB = process.env['LAB'] ?? path.join(tmpdir(), 'content-services');

/** Null if real services can be started here, else why not. */
export function whyNoServices(): string | null {
  return existsSync(SCRIPTS) ? null : `no scripts for real services at ${SCRIPTS} (set CONTENT_SERVICES)`;
}

/** Starts a service, with its records; it goes on running, so that the next time it is there at once. */
export function startService(script: string): void {
  for (const step of ['start', 'seed']) {
    const { status, stderr } = spawnSync('bash', [path.join(SCRIPTS, `${script}.sh`), step], {
      encoding: 'utf8',
      env: { ...process.env, TMPDIR: '/tmp', LAB },
    });
    if (status !== 0) throw new Error(`${script}.sh ${step} ended with ${status}: ${stderr.slice(-500)}`);
  }
}

/** Reads what a service remembers of its keys. */
export function remembered(...file: string[]): string {
  return readFileSync(path.join(LAB, ...file), 'utf8').trim();
}

/** A real service and an empty warehouse, with the shipped profile between them. */
export interface LiveStage extends Journey {
  /** Everything in which the copy is not what the service holds of the resources, as sentences. */
  differences(truth: Readonly<Record<string, readonly TrueRecord[]>>): Promise<string[]>;
}

/** `over` is laid over the profile, the source's settings and all settings. */
export async function liveStage(
  { baseUrl, auth, profile, resources = {} }: Pick<LiveService, 'baseUrl' | 'auth' | 'profile' | 'resources'>,
  database: TestDatabase,
  over: Pick<JourneyOptions, 'profile' | 'source' | 'settings'> = {},
): Promise<LiveStage> {
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
