import { Command } from 'commander';
import { firstPage } from '../checks/listing-walk.ts';
import { openWarehouse } from '../database/databases.ts';
import { pauseResources, readPauses, resumeResources } from '../database/state/pauses.ts';
import { newMeter } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import { type ControlAnswer, type ControlRequest, done } from '../server/controls/control-request.ts';
import { impatiently } from './check.ts';
import type { CliContext } from './command/context.ts';
import { askServe, caller, findServe } from './command/find-serve.ts';
import { print } from './command/output.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  silentLog,
  type SourceOptions,
  whileOpen,
  withApp,
  sourceCommand,
} from './command/sources.ts';

type ControlOptions = SourceOptions & { now?: true };
type Action = 'pause' | 'resume' | 'retry';

interface Asked {
  action: Action;
  now?: true;
}

/** `content-sync pause`: nothing of these resources is walked or read again until they are resumed. */
export function pauseCommand(context: CliContext): Command {
  return resourceCommand('pause', context);
}

/** `content-sync resume`: ends a pause; what waits meanwhile is worked on. */
export function resumeCommand(context: CliContext): Command {
  return resourceCommand('resume', context);
}

/** `content-sync retry`: after a refusal that was mended, the running `serve` need not wait. */
export function retryCommand(context: CliContext): Command {
  return resourceCommand('retry', context).option(
    '--now',
    'Ignore the wait that the service requested, and send one request; works without `serve` too',
  );
}

/** `content-sync reload`: the running `serve` reads its config anew. */
export function reloadCommand(context: CliContext): Command {
  return sourceCommand('reload').action(async (options: ControlOptions) => {
    const settings = readSettings(context, options);
    for (const source of Object.values(settings.sources)) {
      const chosen = { source, resources: [], log: silentLog(context), control: settings.control };
      const door = await findServe(context, chosen);
      const answer = door === null ? null : await askServe(door, { action: 'reload' }, context.signal);
      if (answer !== null) return tell(context, null, [answer]);
    }
    throw nothingRuns('reload its config');
  });
}

function resourceCommand(action: Action, context: CliContext): Command {
  return sourceCommand(action)
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (names: string[], options: ControlOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        const asked = { action, ...(options.now === true && { now: options.now }) };
        tell(context, chosen.source.name, await control(context, chosen, asked, names));
      });
    });
}

/** All of the source as one request, or one for each of the resources that are named. */
async function control(
  context: CliContext,
  chosen: ChosenSource,
  asked: Asked,
  names: readonly string[],
): Promise<ControlAnswer[]> {
  const { name: source } = chosen.source;
  const door = await findServe(context, chosen);
  const requests: ControlRequest[] =
    names.length === 0 ? [{ ...asked, source }] : chosen.resources.map((resource) => ({ ...asked, source, resource }));
  const answers: ControlAnswer[] = [];
  for (const request of door === null ? [] : requests) {
    const answer = door === null ? null : await askServe(door, request, context.signal);
    if (answer !== null) answers.push(answer);
  }
  return answers.length > 0 ? answers : [await withoutServe(context, chosen, asked)];
}

/** A pause is stored, so that the next process honours it. */
async function withoutServe(context: CliContext, chosen: ChosenSource, { action, now }: Asked): Promise<ControlAnswer> {
  const { clock } = context;
  const { source, resources } = chosen;
  if (action === 'retry') {
    if (now === true) return requestNow(context, chosen);
    throw nothingRuns('try again');
  }
  const what = `${source.name} ${resources.join(', ')}`;
  return whileOpen(await openWarehouse(source.warehouse, clock), async (warehouse) => {
    const { own } = warehouse;
    const paused = await readPauses(own);
    const left = resources.filter((resource) => paused.has(resource) !== (action === 'pause'));
    const by = `${caller()} (command)`;
    const change = action === 'pause' ? pauseResources(own, left, { at: clock.now(), by }) : resumeResources(own, left);
    if (left.length > 0) await warehouse.apply(change);
    return done(
      action === 'pause'
        ? `${what}: paused; no serve runs just now, and the next one honours it`
        : `${what}: ${left.length === 0 ? 'nothing of it was paused' : 'resumed; the next serve or sync goes on'}`,
    );
  });
}

/** Forgets the stored wait, and sends one request to find out whether the service answers again. Throws if it does not. */
async function requestNow(context: CliContext, { source, resources, log }: ChosenSource): Promise<ControlAnswer> {
  const once = { ...source.profile, http: { ...source.profile.http, attempts: 1 } };
  return withApp(context, { source: impatiently({ ...source, profile: once }), log }, async (app) => {
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

function tell(context: CliContext, source: string | null, answers: readonly ControlAnswer[]) {
  const [first] = answers;
  if (context.json !== true) print(context, answers.map(({ message }) => message).join('\n'));
  else if (source === null) print(context, { done: true, message: first?.message ?? '', ...first?.result });
  else print(context, { source, done: true, messages: answers.map(({ message }) => message) });
}

function nothingRuns(what: string): SyncError {
  return new SyncError('serve_missing', `no serve runs that could ${what}`, {
    recovery: 'stop',
    hint: 'start it: content-sync serve; or see `control` in the settings, which must be the same for both',
  });
}
