// `content-sync control pause`, `resume` and `retry`: pauses resources in the database, or has `serve` try again.
import type { Command } from 'commander';
import { firstPage } from '../checks/listing-scan.ts';
import { openWarehouse } from '../database/databases.ts';
import { pauseResources, readPauses, resumeResources } from '../database/state/server-state.ts';
import { newMeter } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import { toSyncError } from '../server/controls/control-request.ts';
import { withShortTimeouts } from './check.ts';
import { type CliContext, printReport } from './command/context.ts';
import {
  caller,
  type ChosenSource,
  findServe,
  resourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';

type ControlOptions = SourceOptions & { now?: true };

/** Stores a pause: a running `serve` and every later process honour it. */
export function pauseCommand(context: CliContext): Command {
  return controlCommand(context, 'pause', async ({ source, resources }) => {
    const what = `${source.name} ${resources.join(', ')}`;
    return whileOpen(await openWarehouse(source.warehouse, context.clock), async (warehouse) => {
      const pause = { at: context.clock.now(), by: `${caller()} (command)` };
      await warehouse.apply(pauseResources(warehouse.own, resources, pause));
      return [`${what}: paused; a running serve stops within seconds, and keeps webhooks until it is resumed`];
    });
  });
}

/** Deletes a pause; deliveries stored meanwhile are processed. */
export function resumeCommand(context: CliContext): Command {
  return controlCommand(context, 'resume', async ({ source, resources }) => {
    return whileOpen(await openWarehouse(source.warehouse, context.clock), async (warehouse) => {
      const pauses = await readPauses(warehouse.own);
      const paused = resources.filter((resource) => pauses.has(resource));
      if (paused.length === 0) return [`${source.name}: nothing of it was paused`];
      await warehouse.apply(resumeResources(warehouse.own, paused));
      return [`${source.name}: resumed (${paused.join(', ')}); a running serve continues within seconds`];
    });
  });
}

/** Has the running `serve` try again at once, after a fix. */
export function retryCommand(context: CliContext): Command {
  return controlCommand(context, 'retry', (chosen, options, names) => retry(context, chosen, names, options)).option(
    '--now',
    'Ignore the wait that the service requested, and send one request; works without `serve` too',
  );
}

/** A command for resources of a source; `work` returns the lines to print. */
function controlCommand(
  context: CliContext,
  name: string,
  work: (chosen: ChosenSource, options: ControlOptions, names: readonly string[]) => Promise<string[]>,
): Command {
  return resourceCommand(name, context, async (chosen, options: ControlOptions, names) => {
    const messages = await work(chosen, options, names);
    printReport(context, { source: chosen.source.name, done: true, messages }, messages.join('\n'));
  });
}

/** Sends one request for the whole source, or one per named resource. */
async function retry(
  context: CliContext,
  chosen: ChosenSource,
  names: readonly string[],
  { now }: ControlOptions,
): Promise<string[]> {
  const { name: source } = chosen.source;
  const serve = await findServe(chosen);
  const targets = names.length === 0 ? [{ source }] : chosen.resources.map((resource) => ({ source, resource }));
  const messages: string[] = [];
  for (const target of targets) {
    if (serve === null) break;
    const request = { action: 'retry' as const, ...target, ...(now && { now }) };
    const { answer } = await serve.send(request, context.signal);
    // A `serve` that does not have the source leaves the request to this process.
    if (answer.code === 'unknown_source') continue;
    if (!answer.done) throw toSyncError(answer);
    messages.push(answer.message);
  }
  if (messages.length > 0) return messages;
  if (now === true) return [await requestNow(context, chosen)];
  throw new SyncError('serve_missing', 'no serve runs that could try again', {
    recovery: 'stop',
    hint: 'start it: content-sync serve; or see `control` in the settings, which must be the same for both',
  });
}

/** Deletes the stored wait, and sends one request to see whether the service responds. Throws if it does not. */
async function requestNow(context: CliContext, { source, resources, log }: ChosenSource): Promise<string> {
  const once = { ...source.profile, http: { ...source.profile.http, attempts: 1 } };
  return withApp(context, { source: withShortTimeouts({ ...source, profile: once }), log }, async (app) => {
    await app.retry(true);
    const { client, listing } = app;
    const { clock, signal } = context;
    const profiles = resources.flatMap((resource) => app.source.profile.resources[resource] ?? []);
    const profile = profiles.find(({ partitions, windows }) => partitions === null && windows === null);
    if (profile === undefined) return `${source.name}: the wait is forgotten; run content-sync sync`;
    await firstPage({ profile, listing, client, clock, signal, meter: newMeter() }, 'incremental', {});
    return `${source.name}: the wait is forgotten, and the service answers; run content-sync sync`;
  });
}
