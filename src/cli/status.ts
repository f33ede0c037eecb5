// `content-sync status`: prints rows, last success, lag and problems of every resource; reads only the warehouse.
import type { Command } from 'commander';
import { databaseAt, openWarehouseToRead } from '../database/databases.ts';
import type { WarehouseReader } from '../database/reading.ts';
import { resourcesNotCopied } from '../database/state/catalog.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { countWindows, type WindowCounts } from '../database/state/windows.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatCount, formatDuration, formatNumber } from '../observe/format-values.ts';
import { describeHeldDeletes } from '../server/status/attention.ts';
import { countRows, formatFilesStatus, NOTHING_STORED, readStoredStatus } from '../server/status/read-stored-status.ts';
import type { FilesStatus, StoredResource } from '../server/status/snapshot.ts';
import { alignedLines, type CliContext, type Paint, painter, printReport, toneOfStatus } from './command/context.ts';
import { type ChosenSource, forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';

type ResourceSummary = Awaited<ReturnType<typeof summarizeResource>>;
type FormerResource = Awaited<ReturnType<typeof formerResources>>[number];
type SourceSummary = Awaited<ReturnType<typeof readSourceSummary>>;

export function statusCommand(context: CliContext): Command {
  return sourceCommand('status').action(async (options: SourceOptions) => {
    await forEachSource(context, options, [], async (chosen) => {
      const summary = await readSourceSummary(chosen, context);
      printReport(context, summary, formatTable(summary, painter(context)).trimEnd());
    });
  });
}

async function readSourceSummary({ source }: ChosenSource, { clock }: CliContext) {
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const now = clock.now();
    const { resources: all, files } = await readStoredStatus(source, warehouse.own, now);
    const resources: ResourceSummary[] = [];
    for (const resource of source.resources) {
      const stored = all.get(resource) ?? NOTHING_STORED;
      resources.push(await summarizeResource(warehouse, resource, stored, files.resources.get(resource), now));
    }
    const former = await formerResources(warehouse, source.resources);
    return {
      source: source.name,
      warehouse: databaseAt(source.warehouse).shown,
      resources,
      ...(former.length === 0 ? {} : { not_copied: former }),
    };
  });
}

/** Reads the resources with tables that the profile or the settings no longer name. */
async function formerResources(warehouse: WarehouseReader, copied: readonly string[]) {
  const former: { resource: string; rows: number; last_success: string | null }[] = [];
  for (const resource of await resourcesNotCopied(warehouse.own, copied)) {
    const checkpoint = await readCheckpoint(warehouse.own, resource);
    const { live: rows } = await countRows(warehouse, resource);
    former.push({ resource, rows, last_success: checkpoint?.last_success_at ?? null });
  }
  return former;
}

/** Times are UTC text; `lag_seconds` counts from the last success. */
async function summarizeResource(
  warehouse: WarehouseReader,
  resource: string,
  stored: StoredResource,
  files: FilesStatus | undefined,
  now: number,
) {
  const { runs, rejects, suspects, unfinished, paused, last_success_at: success, parked_until: waitUntil } = stored;
  const [run] = runs;
  const checkpoint = await readCheckpoint(warehouse.own, resource);
  const { live, deleted } = await countRows(warehouse, resource);
  const windows = await countWindows(warehouse.own, resource);
  return {
    resource,
    rows: live,
    deleted,
    held: suspects.held,
    last_success: success === null ? null : timestampText(success),
    lag_seconds: success === null ? null : Math.max(0, Math.round((now - success) / 1_000)),
    last_run: run?.status ?? null,
    cursor: checkpoint?.cursor ?? null,
    rejects: rejects.reduce((sum, { count }) => sum + count, 0),
    unfinished,
    /** When requests may be sent again; null if they may be now. */
    due: waitUntil !== null && waitUntil > now ? timestampText(waitUntil) : null,
    paused: paused === null ? null : { since: timestampText(paused.since), by: paused.by },
    ...(windows !== null && { windows }),
    ...(files && { files }),
    error: run?.error ?? null,
  };
}

const HEAD = ['resource', 'rows', 'deleted', 'last success (UTC)', 'lag', 'last run', 'rejected', 'cursor'] as const;
const LAST_RUN = HEAD.indexOf('last run');

function formatTable({ source, warehouse, resources, not_copied: former = [] }: SourceSummary, paint: Paint): string {
  const rows = resources.map((status) => [
    status.resource,
    formatNumber(status.rows),
    formatNumber(status.deleted),
    status.last_success?.slice(0, 19) ?? 'never',
    status.lag_seconds === null ? '–' : formatDuration(status.lag_seconds),
    status.last_run ?? 'none',
    formatNumber(status.rejects),
    visibleText(status.cursor ?? '–'),
  ]);
  const notes = [...resources.flatMap(formatNotes), ...former.map(formerNote)].map(visibleText);
  const painted = (cell: string, column: number): string =>
    column === LAST_RUN ? paint(cell, toneOfStatus(cell.trim())) : cell;
  const lines = [...alignedLines([HEAD, ...rows], painted), ...notes];
  return `${source}  ${warehouse}\n${lines.map((line) => `  ${line.trimEnd()}\n`).join('')}`;
}

function formatNotes({ resource, unfinished, due, paused, error, held, windows, files }: ResourceSummary): string[] {
  const notes: string[] = [
    ...(windows === undefined ? [] : [windowsNote(resource, windows)]),
    ...(files === undefined ? [] : [`${resource}: ${formatFilesStatus(files)}`]),
  ];
  if (unfinished !== null) {
    const { mode, pages } = unfinished;
    notes.push(`${resource}: a ${mode} sync stopped after ${formatNumber(pages)} pages; the next run resumes there`);
  }
  if (due !== null) notes.push(`${resource}: the service requested a wait until ${due} UTC`);
  if (paused !== null) {
    const since = paused.since.slice(0, 19);
    notes.push(
      `${resource}: paused since ${since} UTC by ${paused.by}; content-sync control resume ${resource} ends the pause`,
    );
  }
  if (held > 0)
    notes.push(`${resource}: ${describeHeldDeletes(held, null)}; see content-sync deletes list ${resource}`);
  if (error !== null) notes.push(`${resource}: ${error.message} [${error.code}]`);
  if (error !== null && error.hint !== null) notes.push(`  → ${error.hint}`);
  return notes;
}

function formerNote({ resource, rows, last_success: success }: FormerResource): string {
  const since = success === null ? '' : ` as of ${success.slice(0, 19)} UTC`;
  return `${resource}: no longer copied, ${formatCount(rows, 'row')} ${rows === 1 ? 'remains' : 'remain'}${since}; its tables and views stay as they are`;
}

function windowsNote(resource: string, counts: WindowCounts): string {
  const { windows, final, oldest, held, capped, differing, dropped } = counts;
  const more: [number, string][] = [
    [held, `held; see content-sync deletes list ${resource}`],
    [capped, 'as large as the service lists'],
    [differing, 'with other totals than the service states'],
    [dropped, 'dropped by age'],
  ];
  const parts = more.flatMap(([count, what]) => (count === 0 ? [] : [`${formatNumber(count)} ${what}`]));
  const since = oldest === null ? '' : ` since ${oldest}`;
  return `${resource}: ${[`${formatNumber(windows)} windows${since}`, `${formatNumber(final)} final`, ...parts].join(', ')}`;
}
