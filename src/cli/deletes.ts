import { Command } from 'commander';
import { ConfigError, SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import { discardSuspects, readSuspects, releaseSuspects } from '../state/suspects.ts';
import { openWarehouseToRead } from '../warehouse/databases.ts';
import type { SuspectRow } from '../warehouse/own-tables.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';
import type { CliContext } from './command/context.ts';
import { forEachSource, type ChosenSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { alignedLines, print } from './command/output.ts';
import { whileOpen, withApp } from './command/with-app.ts';

type DeleteOptions = SourceOptions & { json?: true; id?: string[] };

/** A delete that waits, as it is shown. */
interface WaitingDelete {
  resource: string;
  id: string;
  state: SuspectRow['state'];
  reason: SuspectRow['reason'];
  /** UTC text. */
  since: string;
  detail: string | null;
}

/** A decision, and its effect so far. */
interface Decided {
  resource: string;
  decision: 'confirm' | 'discard';
  /** Deletes that it was decided of. */
  count: number;
  deleted: number;
  /** Why it is not carried out yet; null if it is. */
  left: string | null;
}

const REASONS: Readonly<Record<SuspectRow['reason'], string>> = {
  missing: 'a whole walk did not meet it',
  event: 'an event said so',
  older: 'listed in an older state than its row',
  stated: 'the record says so itself',
  told: 'the feed of deletes names it',
  left_out: 'it is listed, and `filter` leaves it out',
};

/** `content-sync deletes`: what waits for a person before rows are marked as deleted. */
export function deletesCommand(context: CliContext): Command {
  const list = inSources(new Command('list'), 'deletes that are held or still to be confirmed, oldest first');
  const confirm = inSources(new Command('confirm'), 'let them go on: each is read once more where that is possible');
  const discard = inSources(new Command('discard'), 'forget them: their rows stay live until the next whole walk');
  for (const command of [confirm, discard]) command.option('--id <id...>', 'only these records');
  return new Command('deletes')
    .helpCommand(false)
    .addCommand(list.action((names: string[], options: DeleteOptions) => listDeletes(context, names, options)))
    .addCommand(confirm.action((names: string[], options: DeleteOptions) => decide(context, 'confirm', names, options)))
    .addCommand(
      discard.action((names: string[], options: DeleteOptions) => decide(context, 'discard', names, options)),
    );
}

function inSources(command: Command, about: string): Command {
  return withSourceOptions(command)
    .description(about)
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout');
}

async function listDeletes(context: CliContext, names: string[], options: DeleteOptions): Promise<void> {
  await forEachSource(context, options, names, async ({ source, resources }) => {
    const warehouse = await openWarehouseToRead(source.warehouse, context.clock);
    const waiting = await whileOpen(warehouse, () => Promise.all(resources.map((name) => waitingIn(warehouse, name))));
    const deletes = waiting.flat();
    print(context, options.json === true ? { source: source.name, deletes } : tableOf(deletes));
  });
}

async function waitingIn({ own }: Pick<WarehouseReader, 'own'>, resource: string): Promise<WaitingDelete[]> {
  const suspects = await readSuspects(own, resource, ['held', 'open', 'released']);
  return suspects
    .filter(({ reason }) => reason !== 'older')
    .map(({ record_id: id, state, reason, found_at: since, detail }) => ({
      resource,
      id,
      state,
      reason,
      since,
      detail,
    }));
}

function tableOf(deletes: readonly WaitingDelete[]): string {
  if (deletes.length === 0) return 'no deletes wait';
  const rows = deletes.map(({ resource, id, state, since, reason, detail }) => {
    const why = [REASONS[reason], detail].filter((text) => text !== null).join('; ');
    return [resource, id, state, `${since.slice(0, 19)} UTC`, why].map(visibleText);
  });
  return alignedLines(rows).join('\n');
}

async function decide(
  context: CliContext,
  decision: Decided['decision'],
  names: string[],
  options: DeleteOptions,
): Promise<void> {
  await forEachSource(context, options, names, async (chosen) => {
    const decided = await decideInSource(context, chosen, decision, options.id ?? []);
    const { name: source } = chosen.source;
    const told = decided.length === 0 ? 'no deletes wait' : decided.map(sentence).map(visibleText).join('\n');
    print(context, options.json === true ? { source, resources: decided } : told);
  });
}

async function decideInSource(
  context: CliContext,
  { source, resources, log }: ChosenSource,
  decision: Decided['decision'],
  ids: readonly string[],
): Promise<Decided[]> {
  // Without a warehouse nothing can wait, and none is created.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  return withApp(context, { source, log }, async (app) => {
    const { warehouse } = app;
    const waiting = await Promise.all(resources.map((resource) => waitingIn(warehouse, resource)));
    const chosen = waiting.flat().filter(({ id }) => ids.length === 0 || ids.includes(id));
    refuseUnknown(ids, chosen, source.name);
    const decided: Decided[] = [];
    for (const [resource, deletes] of Map.groupBy(chosen, (each) => each.resource)) {
      const keys = deletes.map(({ id }) => id);
      const change = decision === 'confirm' ? releaseSuspects : discardSuspects;
      await warehouse.apply(change(warehouse.own, resource, keys));
      const outcome = { resource, decision, count: keys.length, deleted: 0, left: null };
      const carriedOut = () => carryOut(() => app.confirmReleased(resource, context.signal));
      decided.push(decision === 'confirm' ? { ...outcome, ...(await carriedOut()) } : outcome);
    }
    return decided;
  });
}

/** If another process owns the resource, that one carries the decision out. */
async function carryOut(
  confirm: () => Promise<{ deleted: number; trouble: SyncError | null }>,
): Promise<Pick<Decided, 'deleted' | 'left'>> {
  try {
    const { deleted, trouble } = await confirm();
    return { deleted, left: trouble === null ? null : trouble.message };
  } catch (error) {
    if (error instanceof SyncError && error.code === 'lease_held') return { deleted: 0, left: error.message };
    throw error;
  }
}

function refuseUnknown(ids: readonly string[], chosen: readonly WaitingDelete[], source: string): void {
  const unknown = ids.filter((id) => !chosen.some((each) => each.id === id));
  if (unknown.length === 0) return;
  throw new ConfigError('usage', `no delete of ${unknown.join(', ')} waits in source ${source}`, {
    hint: 'content-sync deletes list shows those that do',
  });
}

function sentence({ resource, decision, count, deleted, left }: Decided): string {
  if (decision === 'discard') return `${resource}: ${countText(count)} forgotten, their rows stay live`;
  const done = `${resource}: ${countText(count)} confirmed, ${countText(deleted)} deleted by now`;
  return left === null ? done : `${done}; the rest will be by the process at work, or by the next run: ${left}`;
}
