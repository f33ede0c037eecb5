// `content-sync deletes`: lists deletes that wait for a decision of the user, and confirms or discards them.
import { Command } from 'commander';
import { openWarehouse, openWarehouseToRead } from '../database/databases.ts';
import { SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import {
  type DecidedDeletes,
  decideDeletes,
  decidedText,
  type WaitingDelete,
  waitingDeletes,
} from '../server/controls/decide-deletes.ts';
import { alignedLines, type CliContext, printReport } from './command/context.ts';
import {
  type ChosenSource,
  forEachSource,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';
import { findServe } from './command/watch-run.ts';

type DeleteOptions = SourceOptions & { id?: string[] };

const REASONS: Readonly<Record<WaitingDelete['reason'], string>> = {
  missing: 'not listed by a full sync',
  event: 'reported by an event',
  older: 'listed in an older state than its row',
  stated: 'marked as deleted in the record',
  told: 'named by the feed of deletes',
  left_out: 'listed, but excluded by `filter`',
  window: 'a window of reports, by its first day',
};

export function deletesCommand(context: CliContext): Command {
  const list = inSources('list', 'List deletes that are held or not yet verified, oldest first');
  const confirm = inSources('confirm', 'Confirm deletes; each record is fetched once more if possible');
  const discard = inSources('discard', 'Discard deletes: the rows stay live until the next full sync');
  for (const command of [confirm, discard]) command.option('--id <id...>', 'Only these records');
  return new Command('deletes')
    .helpCommand(false)
    .addCommand(list.action((names: string[], options: DeleteOptions) => listDeletes(context, names, options)))
    .addCommand(confirm.action((names: string[], options: DeleteOptions) => decide(context, 'confirm', names, options)))
    .addCommand(
      discard.action((names: string[], options: DeleteOptions) => decide(context, 'discard', names, options)),
    );
}

function inSources(name: string, about: string): Command {
  return sourceCommand(name).description(about).argument('[resource...]', 'Only these resources of the profile');
}

async function listDeletes(context: CliContext, names: string[], options: DeleteOptions): Promise<void> {
  await forEachSource(context, options, names, async ({ source, resources }) => {
    const warehouse = await openWarehouseToRead(source.warehouse, context.clock);
    const waiting = await whileOpen(warehouse, () =>
      Promise.all(resources.map((name) => waitingDeletes(warehouse, name))),
    );
    const deletes = waiting.flat();
    printReport(context, { source: source.name, deletes }, formatTable(deletes));
  });
}

function formatTable(deletes: readonly WaitingDelete[]): string {
  if (deletes.length === 0) return 'no deletes wait';
  const rows = deletes.map(({ resource, id, state, since, reason, detail }) => {
    const why = [REASONS[reason], detail].filter((text) => text !== null).join('; ');
    return [resource, id, state, `${since.slice(0, 19)} UTC`, why].map(visibleText);
  });
  return alignedLines(rows).join('\n');
}

async function decide(
  context: CliContext,
  decision: DecidedDeletes['decision'],
  names: string[],
  options: DeleteOptions,
): Promise<void> {
  await forEachSource(context, options, names, async (chosen) => {
    const { name: source } = chosen.source;
    const decided = await decideInSource(context, chosen, decision, options.id ?? []);
    printReport(context, { source, resources: decided }, decidedText(decided));
  });
}

/** What a running `serve` deletes counts against the limits of its own requests: it finds the decision by itself. */
const BY_SERVE = 'the running serve does it within 20 s';

async function decideInSource(
  context: CliContext,
  chosen: ChosenSource,
  decision: DecidedDeletes['decision'],
  ids: readonly string[],
): Promise<DecidedDeletes[]> {
  const { source, resources, log } = chosen;
  const request = { source: source.name, resources, decision, ids };
  // Without a warehouse nothing can wait, and none is created.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  if (decision === 'discard' || (await findServe(chosen)) !== null) {
    const warehouse = await openWarehouse(source.warehouse, context.clock);
    const decided = await whileOpen(warehouse, () => decideDeletes(warehouse, request));
    return decision === 'discard'
      ? decided
      : decided.map((each) => Object.assign({}, each, { left: each.left ?? BY_SERVE }));
  }
  return withApp(context, { source, log }, async (app) => {
    const decided = await decideDeletes(app.warehouse, request);
    for (const each of decided) {
      const { deleted, left } = await carryOut(() => app.confirmReleased(each.resource, context.signal));
      Object.assign(each, { deleted, left: left ?? each.left });
    }
    return decided;
  });
}

/** If another process owns the resource, that one carries the decision out. */
async function carryOut(
  confirm: () => Promise<{ deleted: number; error: SyncError | null }>,
): Promise<{ deleted: number; left: string | null }> {
  try {
    const { deleted, error } = await confirm();
    return { deleted, left: error === null ? null : error.message };
  } catch (error) {
    if (error instanceof SyncError && error.code === 'lease_held') return { deleted: 0, left: error.message };
    throw error;
  }
}
