import { Command } from 'commander';
import { openWarehouseToRead } from '../database/databases.ts';
import { SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf, countText } from '../observe/figures.ts';
import type { App } from '../server/app.ts';
import type { ResourceRebuilt } from '../sync/rebuild-resource.ts';
import type { CliContext } from './command/context.ts';
import { print, printReport } from './command/output.ts';
import { forEachSource, type SourceOptions, withApp, sourceCommand } from './command/sources.ts';

const LOOK_MS = 200;
const PATIENCE_MS = 4_000;

/** `content-sync rebuild`: other tables of the same records, without a request. */
export function rebuildCommand(context: CliContext): Command {
  return sourceCommand('rebuild')
    .argument('[resource...]', 'Only these resources of the profile')
    .option(
      '--drop-views',
      'Only create the views again, with the types of the tables; drops and prints external views that are in the way',
    )
    .action(async (names: string[], options: SourceOptions & { dropViews?: true }) => {
      await forEachSource(context, options, names, async ({ source, resources, log }) => {
        // Without a warehouse there is nothing to rebuild, and none is created.
        await (await openWarehouseToRead(source.warehouse, context.clock)).close();
        await withApp(context, { source, log }, async (app) => {
          if (options.dropViews === true) return dropViews(context, app, resources);
          const rebuilt: ResourceRebuilt[] = [];
          for (const resource of resources) {
            const one = await whenFree(context, resource, () => app.rebuild(resource, context.signal));
            rebuilt.push(one);
            if (context.json !== true) print(context, textOf(one));
          }
          if (context.json === true) print(context, { source: source.name, resources: rebuilt });
        });
      });
    });
}

/** The definition of each view that was dropped is printed, so that it can be made again by hand. */
async function dropViews(context: CliContext, app: App, resources: readonly string[]): Promise<void> {
  for (const resource of resources) {
    const dropped = await whenFree(context, resource, () => app.rebuildViews(resource, context.signal));
    const lines = [
      `${resource}: views created again, dropped ${countOf(dropped.length, 'external view')}`,
      ...dropped.map(({ definition }) => definition),
    ];
    printReport(context, { resource, dropped }, lines.map(visibleText).join('\n'));
  }
}

/** Who was paused, or has done with a record, gives the resource back within a moment. */
async function whenFree<T>({ clock, signal }: CliContext, resource: string, work: () => Promise<T>): Promise<T> {
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      if (signal.aborted || clock.monotonic() >= until) {
        const { code, message, recovery } = error;
        throw new SyncError(code, message, {
          recovery,
          hint: `while serve runs: content-sync pause ${resource}, then content-sync rebuild ${resource}, then content-sync reload (so that serve takes the changed profile over too) and content-sync resume ${resource}; else wait until it is done`,
        });
      }
    }
    await clock.sleep(LOOK_MS);
  }
}

function textOf({ resource, records, bodiless, tables, gone, changed, masked }: ResourceRebuilt): string {
  const lines = [
    `${resource}: ${countText(records)} records in ${tables.join(', ')}`,
    ...(changed.length === 0 ? [] : [`  new or of another type: ${changed.join(', ')}`]),
    ...(gone.length === 0 ? [] : [`  gone: ${gone.join(', ')}`]),
    ...(masked === 0 ? [] : [`  excluded fields were taken out of ${countText(masked)} stored bodies too`]),
    ...(bodiless === 0
      ? []
      : [
          `  → ${countText(bodiless)} of them have no kept body: only columns that stay as they were are filled; content-sync backfill ${resource} --restart copies them anew`,
        ]),
  ];
  return lines.map(visibleText).join('\n');
}
