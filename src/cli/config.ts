import { Command } from 'commander';
import { configJsonSchema, profileJsonSchema } from '../settings/json-schema.ts';
import type { CliContext } from './command/context.ts';

/** `content-sync config schema`: what an editor needs to help with the files. */
export function configCommand(context: CliContext): Command {
  const schema = new Command('schema')
    .description('print the JSON Schema of the config file, for editors')
    .option('--profile', 'print the one of profiles instead')
    .action((options: { profile?: true }) => {
      const text = options.profile === true ? profileJsonSchema() : configJsonSchema();
      context.stdout.write(`${JSON.stringify(text, null, 2)}\n`);
    });
  return new Command('config').addCommand(schema);
}
