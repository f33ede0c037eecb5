import { Command } from 'commander';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import type { ResourceRebuilt } from '../sync/rebuild-resource.ts';
import { openWarehouseToRead } from '../warehouse/databases.ts';
import type { CliContext } from './command/context.ts';
import { print } from './command/output.ts';
import { forEachSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { withApp } from './command/with-app.ts';

/** `content-sync rebuild`: other tables of the same records, without a request. */
export function rebuildCommand(context: CliContext): Command {
  return withSourceOptions(new Command('rebuild'))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (names: string[], options: SourceOptions & { json?: true }) => {
      await forEachSource(context, options, names, async ({ source, resources, log }) => {
        // Without a warehouse there is nothing to rebuild, and none is created.
        await (await openWarehouseToRead(source.warehouse, context.clock)).close();
        await withApp(context, { source, log }, async (app) => {
          const rebuilt: ResourceRebuilt[] = [];
          for (const resource of resources) {
            const one = await app.rebuild(resource, context.signal);
            rebuilt.push(one);
            if (options.json !== true) print(context, textOf(one));
          }
          if (options.json === true) print(context, { source: source.name, resources: rebuilt });
        });
      });
    });
}

function textOf({ resource, records, bodiless, tables, gone, changed, masked, walksNext }: ResourceRebuilt): string {
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
    ...(walksNext
      ? ['  → an earlier version has not noted which records the profile asked for: the next run walks everything']
      : []),
  ];
  return lines.map(visibleText).join('\n');
}
