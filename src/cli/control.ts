// `content-sync control pause`, `resume` and `retry`: control a running `serve`, or store a pause for the next one.
import type { Command } from 'commander';
import { firstPage } from '../checks/listing-scan.ts';
import { openWarehouse } from '../database/databases.ts';
import { pauseResources, readPauses, resumeResources } from '../database/state/server-state.ts';
import { newMeter } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import { type ControlAnswer, done, toSyncError } from '../server/controls/control-request.ts';
import { withShortTimeouts } from './check.ts';
import { type CliContext, printReport } from './command/context.ts';
import {
  caller,
  type ChosenSource,
  findServe,
  forEachSource,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';

type ControlOptions = SourceOptions & { now?: true };

interface RequestedAction {
  action: 'pause' | 'resume' | 'retry';
  /** Only for `retry`: ignores the wait that the service requested. */
  now?: true;
}

export function pauseCommand(context: CliContext): Command {
  return controlCommand('pause', context);
}

export function resumeCommand(context: CliContext): Command {
  return controlCommand('resume', context);
}

export function retryCommand(context: CliContext): Command {
  return controlCommand('retry', context).option(
    '--now',
    'Ignore the wait that the service requested, and send one request; works without `serve` too',
  );
}

function controlCommand(action: RequestedAction['action'], context: CliContext): Command {
  return sourceCommand(action)
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (names: string[], options: ControlOptions) => {
      const requested = { action, ...(options.now === true && { now: options.now }) };
      await forEachSource(context, options, names, async (chosen) => {
        const isWholeSource = names.length === 0;
        const answers = await askServe(context, chosen, requested, isWholeSource);
        if (answers.length === 0) answers.push(await withoutServe(context, chosen, requested));
        const messages = answers.map(({ message }) => message);
        printReport(context, { source: chosen.source.name, done: true, messages }, messages.join('\n'));
      });
    });
}

/** Sends one request for the whole source, or one per resource. Returns no answer if no `serve` has the source. */
async function askServe(
  context: CliContext,
  chosen: ChosenSource,
  requested: RequestedAction,
  isWholeSource: boolean,
): Promise<ControlAnswer[]> {
  const serve = await findServe(context, chosen);
  if (serve === null) return [];
  const { name: source } = chosen.source;
  const targets = isWholeSource ? [{ source }] : chosen.resources.map((resource) => ({ source, resource }));
  const answers: ControlAnswer[] = [];
  for (const target of targets) {
    const { answer } = await serve.send({ ...requested, ...target }, context.signal);
    if (answer.code === 'unknown_source') continue;
    if (!answer.done) throw toSyncError(answer);
    answers.push(answer);
  }
  return answers;
}

/** Stores a pause, so that the next process honours it; or sends the request of `retry --now` itself. */
async function withoutServe(
  context: CliContext,
  chosen: ChosenSource,
  { action, now }: RequestedAction,
): Promise<ControlAnswer> {
  const { clock } = context;
  const { source, resources } = chosen;
  if (action === 'retry' && now === true) return requestNow(context, chosen);
  if (action === 'retry') {
    throw new SyncError('serve_missing', 'no serve runs that could try again', {
      recovery: 'stop',
      hint: 'start it: content-sync serve; or see `control` in the settings, which must be the same for both',
    });
  }
  return whileOpen(await openWarehouse(source.warehouse, clock), async (warehouse) => {
    const { own } = warehouse;
    const paused = await readPauses(own);
    const changing = resources.filter((resource) => paused.has(resource) !== (action === 'pause'));
    const by = `${caller()} (command)`;
    const change =
      action === 'pause' ? pauseResources(own, changing, { at: clock.now(), by }) : resumeResources(own, changing);
    if (changing.length > 0) await warehouse.apply(change);
    const what = `${source.name} ${resources.join(', ')}`;
    if (action === 'pause') return done(`${what}: paused; no serve runs just now, and the next one honours it`);
    return done(
      `${what}: ${changing.length === 0 ? 'nothing of it was paused' : 'resumed; the next serve or sync continues'}`,
    );
  });
}

/** Deletes the stored wait, and sends one request to see whether the service responds. Throws if it does not. */
async function requestNow(context: CliContext, { source, resources, log }: ChosenSource): Promise<ControlAnswer> {
  const once = { ...source.profile, http: { ...source.profile.http, attempts: 1 } };
  return withApp(context, { source: withShortTimeouts({ ...source, profile: once }), log }, async (app) => {
    await app.retry(true);
    const { client, listing } = app;
    const { clock, signal } = context;
    const profiles = resources.flatMap((resource) => app.source.profile.resources[resource] ?? []);
    const profile = profiles.find(({ partitions, windows }) => partitions === null && windows === null);
    if (profile === undefined) return done(`${source.name}: the wait is forgotten; run content-sync sync`);
    await firstPage({ profile, listing, client, clock, signal, meter: newMeter() }, 'incremental', {});
    return done(`${source.name}: the wait is forgotten, and the service answers; run content-sync sync`);
  });
}
