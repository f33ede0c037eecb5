import { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import type { ControlAnswer, ControlRequest } from '../../serve/controls/control-request.ts';
import { done } from '../../serve/controls/answers.ts';
import { pauseResources, readPauses, resumeResources } from '../../state/pauses.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { askServe, caller, findServe } from '../command/find-serve.ts';
import { print } from '../command/output.ts';
import { forEachSource, namedSources, readSettings, withSourceOptions, silentLog } from '../command/sources.ts';
import type { ChosenSource, SourceOptions } from '../command/sources.ts';
import { whileOpen } from '../command/with-app.ts';

type ControlOptions = SourceOptions & { json?: true };
type Action = 'pause' | 'resume' | 'retry';

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
  return resourceCommand('retry', context);
}

/** `content-sync reload`: the running `serve` reads its config anew. */
export function reloadCommand(context: CliContext): Command {
  return withSourceOptions(new Command('reload'))
    .option('--json', 'print one JSON object on stdout')
    .action(async (options: ControlOptions) => {
      const settings = readSettings(context, options);
      for (const source of namedSources(settings, options.source)) {
        const chosen = { source, resources: [], log: silentLog(context), control: settings.control };
        const door = await findServe(context, chosen);
        const answer = door === null ? null : await askServe(door, { action: 'reload' }, context.signal);
        if (answer !== null) return tell(context, options, null, [answer]);
      }
      throw nothingRuns('reload its config');
    });
}

function resourceCommand(action: Action, context: CliContext): Command {
  return withSourceOptions(new Command(action))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (names: string[], options: ControlOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        tell(context, options, chosen.source.name, await control(context, chosen, action, names));
      });
    });
}

/** All of the source as one request, or one for each of the resources that are named. */
async function control(
  context: CliContext,
  chosen: ChosenSource,
  action: Action,
  names: readonly string[],
): Promise<ControlAnswer[]> {
  const { name: source } = chosen.source;
  const door = await findServe(context, chosen);
  const requests: ControlRequest[] =
    names.length === 0 ? [{ action, source }] : chosen.resources.map((resource) => ({ action, source, resource }));
  const answers: ControlAnswer[] = [];
  for (const request of door === null ? [] : requests) {
    const answer = door === null ? null : await askServe(door, request, context.signal);
    if (answer !== null) answers.push(answer);
  }
  return answers.length > 0 ? answers : [await withoutServe(context, chosen, action)];
}

/** A pause is stored, so that the next process honours it. */
async function withoutServe(
  { clock }: CliContext,
  { source, resources }: ChosenSource,
  action: Action,
): Promise<ControlAnswer> {
  if (action === 'retry') throw nothingRuns('try again');
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

function tell(context: CliContext, { json }: ControlOptions, source: string | null, answers: readonly ControlAnswer[]) {
  const [first] = answers;
  if (json !== true) print(context, answers.map(({ message }) => message).join('\n'));
  else if (source === null) print(context, { done: true, message: first?.message ?? '', ...first?.result });
  else print(context, { source, done: true, messages: answers.map(({ message }) => message) });
}

function nothingRuns(what: string): SyncError {
  return new SyncError('serve_missing', `no serve runs that could ${what}`, {
    recovery: 'stop',
    hint: 'start it: content-sync serve; or see `control` in the settings, which must be the same for both',
  });
}
