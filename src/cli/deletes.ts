// `content-sync deletes`: lists deletes that wait for a decision of the user, and confirms or discards them.
import { Command } from 'commander';
import { openWarehouse, openWarehouseToRead } from '../database/databases.ts';
import { SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import {
  type DecidedDeletes,
  decideDeletes,
  formatDecisions,
  type WaitingDelete,
  readWaitingDeletes,
} from '../server/controls/decide-deletes.ts';
import { alignedLines, type CliContext, printReport } from './command/context.ts';
import {
  type ChosenSource,
  findServe,
  resourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';

type DecideOptions = SourceOptions & { id?: string[] };

export function deletesCommand(context: CliContext): Command {
  return new Command('deletes')
    .helpCommand(false)
    .addCommand(listCommand(context))
    .addCommand(
      decideCommand(context, 'confirm').description('Confirm deletes; each record is fetched once more if possible'),
    )
    .addCommand(
      decideCommand(context, 'discard').description('Discard deletes: the rows stay live until the next full sync'),
    );
}

function listCommand(context: CliContext): Command {
  return resourceCommand('list', context, async ({ source, resources }) => {
    const warehouse = await openWarehouseToRead(source.warehouse, context.clock);
    const readAll = (): Promise<WaitingDelete[][]> =>
      Promise.all(resources.map((name) => readWaitingDeletes(warehouse, name)));
    const deletes = (await whileOpen(warehouse, readAll)).flat();
    printReport(context, { source: source.name, deletes }, formatTable(deletes));
  }).description('List deletes that are held or not yet verified, oldest first');
}

const REASONS: Readonly<Record<WaitingDelete['reason'], string>> = {
  missing: 'not listed by a full sync',
  event: 'reported by an event',
  older: 'listed in an older state than its row',
  stated: 'marked as deleted in the record',
  told: 'named by the feed of deletes',
  left_out: 'listed, but excluded by `filter`',
  window: 'a window of reports, by its first day',
};

function formatTable(deletes: readonly WaitingDelete[]): string {
  if (deletes.length === 0) return 'no deletes wait';
  const rows = deletes.map(({ resource, id, state, since, reason, detail }) => {
    const why = [REASONS[reason], detail].filter((text) => text !== null).join('; ');
    return [resource, id, state, `${since.slice(0, 19)} UTC`, why].map(visibleText);
  });
  return alignedLines(rows).join('\n');
}

function decideCommand(context: CliContext, decision: DecidedDeletes['decision']): Command {
  return resourceCommand(decision, context, async (chosen, options: DecideOptions) => {
    const decided = await decideInSource(context, chosen, decision, options.id ?? []);
    printReport(context, { source: chosen.source.name, resources: decided }, formatDecisions(decided));
  }).option('--id <id...>', 'Only these records');
}

/** Stores the decision. A running `serve` finds confirmed deletes by itself; without one, this process carries them out. */
async function decideInSource(
  context: CliContext,
  chosen: ChosenSource,
  decision: DecidedDeletes['decision'],
  ids: readonly string[],
): Promise<DecidedDeletes[]> {
  const { source, resources, log } = chosen;
  const request = { source: source.name, resources, decision, ids };
  // Throws if there is no warehouse: nothing can wait then, and `openWarehouse` would create one.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  if (decision === 'discard' || (await findServe(chosen)) !== null) {
    const warehouse = await openWarehouse(source.warehouse, context.clock);
    const decided = await whileOpen(warehouse, () => decideDeletes(warehouse, request));
    if (decision === 'discard') return decided;
    return decided.map((each) => Object.assign(each, { left: each.left ?? 'the running serve does it within 20 s' }));
  }
  return withApp(context, { source, log }, async (app) => {
    const decided = await decideDeletes(app.warehouse, request);
    for (const each of decided) {
      try {
        const { deleted, error } = await app.confirmReleased(each.resource, context.signal);
        Object.assign(each, { deleted, left: error?.message ?? each.left });
      } catch (error) {
        // The process that owns the resource carries the decision out.
        if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
        each.left = error.message;
      }
    }
    return decided;
  });
}
