import { Command } from 'commander';
import type { App } from '../app.ts';
import { countText, durationText } from '../observe/figures.ts';
import { timestampMs } from '../model/timestamp-text.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { countOpenRejects } from '../state/rejects.ts';
import { lastRun } from '../state/runs.ts';
import type { CliContext } from './context.ts';
import { forEachSource, withSourceOptions, type SourceOptions } from './open-sources.ts';

/** How one resource stands; times are UTC text, `lag_seconds` is since the last success. */
interface ResourceStatus {
  resource: string;
  rows: number;
  last_success: string | null;
  lag_seconds: number | null;
  last_run: string | null;
  cursor: string | null;
  rejects: number;
  unfinished: { mode: string; pages: number; records: number } | null;
  due: string | null;
  error: string | null;
}

/** `content-sync status`: what is in the warehouse and how old it is, with no request to the service. */
export function statusCommand(context: CliContext): Command {
  return withSourceOptions(new Command('status'))
    .description('rows, last success, cursor, records set aside and lag of every resource; asks only the warehouse')
    .option('--json', 'print one JSON object per source')
    .action(async (options: SourceOptions & { json?: true }) => {
      await forEachSource(context, options, async ({ app }) => {
        const resources: ResourceStatus[] = [];
        for (const resource of app.source.resources) resources.push(await statusOf(app, resource, context.clock.now()));
        const report = { source: app.source.name, warehouse: app.source.warehouse, resources };
        context.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : tableOf(report));
      });
    });
}

async function statusOf(app: App, resource: string, now: number): Promise<ResourceStatus> {
  const { warehouse } = app;
  const checkpoint = await readCheckpoint(warehouse.own, resource);
  const run = await lastRun(warehouse.own, resource);
  const success = checkpoint?.last_success_at ?? null;
  const isUnfinished = checkpoint !== null && checkpoint.walk_mode !== null;
  return {
    resource,
    rows: await warehouse.count(resource),
    last_success: success,
    lag_seconds: success === null ? null : Math.max(0, Math.round((now - timestampMs(success)) / 1_000)),
    last_run: run?.status ?? null,
    cursor: checkpoint?.cursor ?? null,
    rejects: await countOpenRejects(warehouse.own, resource),
    unfinished: isUnfinished
      ? { mode: checkpoint.walk_mode ?? '', pages: checkpoint.walk_pages, records: checkpoint.walk_records }
      : null,
    due: checkpoint?.due_at ?? null,
    error: run?.error ?? null,
  };
}

function tableOf(report: { source: string; warehouse: string; resources: ResourceStatus[] }): string {
  const head = ['resource', 'rows', 'last success (UTC)', 'lag', 'last run', 'set aside', 'cursor'];
  const rows = report.resources.map((status) => [
    status.resource,
    countText(status.rows),
    status.last_success?.slice(0, 19) ?? 'never',
    status.lag_seconds === null ? '–' : durationText(status.lag_seconds),
    status.last_run ?? 'none',
    countText(status.rejects),
    status.cursor ?? '–',
  ]);
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const lines = [head, ...rows].map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd());
  return `${report.source}  ${report.warehouse}\n${[...lines, ...report.resources.flatMap(notesOf)].map((line) => `  ${line}\n`).join('')}`;
}

function notesOf({ resource, unfinished, due, error }: ResourceStatus): string[] {
  return [
    ...(unfinished === null
      ? []
      : [`${resource}: a ${unfinished.mode} walk stopped after ${countText(unfinished.pages)} pages; the next run goes on there`]),
    ...(due === null ? [] : [`${resource}: the service asked to be left alone until ${due} UTC`]),
    ...(error === null ? [] : [`${resource}: ${error}`]),
  ];
}
