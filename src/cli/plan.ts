import { Argument, type Command } from 'commander';
import type { Kysely } from 'kysely';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OwnTables } from '../database/own-tables.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { requestsOfLast } from '../database/state/runs.ts';
import { ConfigError, DeferredError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { countOf } from '../observe/figures.ts';
import { credentialName } from '../server/app.ts';
import { planScan, type SyncCommand, type ScanPlan } from '../sync/plan.ts';
import { maskedProfile } from '../sync/verify-profile.ts';
import { type CliContext, EXIT_CODES } from './command/context.ts';
import { findWarehouse } from './command/find-warehouse.ts';
import { printReport } from './command/output.ts';
import { type ChosenSource, forEachSource, type SourceOptions, sourceCommand } from './command/sources.ts';

/** What the next run does to a resource. */
interface ResourcePlan {
  resource: string;
  mode: ScanMode;
  /** The time since which changes are requested, as the filter takes it; null without a filter. */
  since: string | null;
  /** Requests of the last run in the same mode; null if there was none. */
  requests: number | null;
  /** Reasons, as sentences without a final period. */
  notes: string[];
  /** True if the run will be refused until the profile change is undone or the resource is copied again. */
  is_refused: boolean;
}

interface PlanReport {
  source: string;
  command: SyncCommand;
  resources: ResourcePlan[];
}

/** `content-sync plan`: what will the next run do? Sends no request, and writes nothing. */
export function planCommand(context: CliContext): Command {
  return sourceCommand('plan')
    .addArgument(new Argument('[run]', 'Run to plan').choices(['backfill', 'sync']).default('sync'))
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (run: SyncCommand, names: string[], options: SourceOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        const report = await planSource(context, chosen, run);
        printReport(context, report, planText(report));
        // What would be refused is a fault of the settings.
        return report.resources.some(({ is_refused }) => is_refused) ? EXIT_CODES.usage : EXIT_CODES.ok;
      });
    });
}

async function planSource(
  { clock }: CliContext,
  { source, resources: names }: ChosenSource,
  command: SyncCommand,
): Promise<PlanReport> {
  const { reader } = await findWarehouse(source, clock);
  try {
    const profiles = maskedProfile(source.profile, source.hash_key).resources;
    const asked = { command, own: reader?.own ?? null, credential: credentialName(source), now: clock.now() };
    const resources: ResourcePlan[] = [];
    for (const resource of names) {
      const profile = profiles[resource];
      if (profile !== undefined) resources.push(await planResource({ ...asked, resource, profile }));
    }
    return { source: source.name, command, resources };
  } finally {
    await reader?.close();
  }
}

interface PlanQuery {
  command: SyncCommand;
  resource: string;
  profile: ResourceProfile;
  /** What is remembered; null if there is no warehouse yet. */
  own: Kysely<OwnTables> | null;
  /** In use, as a hash. */
  credential: string;
  now: number;
}

async function planResource(asked: PlanQuery): Promise<ResourcePlan> {
  const { own, resource } = asked;
  const { plan, notes } = await planNext(asked);
  const mode = plan?.mode ?? 'full';
  const requests = own === null ? null : await requestsOfLast(own, resource, mode);
  return { resource, mode, since: plan?.checkpoint.walk_since ?? null, requests, notes, is_refused: plan === null };
}

/** Uses the plan of a run; null if the run would be refused. */
async function planNext({ own, ...asked }: PlanQuery): Promise<{ plan: ScanPlan | null; notes: string[] }> {
  const { command, resource, profile } = asked;
  const stored = own === null ? null : await readCheckpoint(own, resource);
  const feeds = own?.selectFrom('_sync_feeds').select('cursor').where('resource', '=', resource);
  const changes = feeds?.where('feed', '=', 'changes').where('cursor', 'is not', null);
  const isFed = changes !== undefined && profile.feed !== null && (await changes.execute()).length > 0;
  const input = { ...asked, restart: false, interrupted: null, isFed };
  try {
    const plan = planScan({ ...input, stored });
    const { walk_pages, walk_records } = plan.checkpoint;
    const hasNoFilter = profile.incremental === null && profile.feed === null && profile.windows === null;
    const notes = [
      ...(stored === null ? ['it was never copied: everything is fetched'] : []),
      ...(plan.resumed
        ? [`it resumes after ${walk_pages} pages and ${walk_records} records of an unfinished scan`]
        : []),
      ...(stored !== null && command === 'sync' && hasNoFilter
        ? ['the profile has no filter by time: everything is fetched']
        : []),
    ];
    return { plan, notes };
  } catch (error) {
    if (error instanceof DeferredError)
      return { plan: planScan({ ...input, stored: stored && { ...stored, due_at: null } }), notes: [error.message] };
    if (!(error instanceof ConfigError) || error.code !== 'profile_changed') throw error;
    return { plan: null, notes: [`the run will be refused: ${error.message}; backfill --restart copies it again`] };
  }
}

function planText({ source, command, resources }: PlanReport): string {
  const lines = resources.flatMap(({ resource, mode, since, requests, notes }) => {
    const from = since === null ? '' : ` since ${since}`;
    const last = requests === null ? 'no such run yet' : `its last such run took ${countOf(requests, 'request')}`;
    return [`  ${resource}: ${mode}${from}; ${last}`, ...notes.map((note) => `    ${note}`)];
  });
  return [`${source}: ${command}`, ...lines].map(visibleText).join('\n');
}
