import { Command } from 'commander';
import { configJsonSchema, profileJsonSchema } from '../config/json-schema.ts';
import type { CliContext } from './command/context.ts';
import { readFileSync } from 'node:fs';
import { ConfigError } from '../model/errors.ts';
import { packagedProfiles, profilePath, readPackagedProfile } from '../config/load-profile.ts';
import { alignedLines, print } from './command/output.ts';

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

/** `content-sync profiles`: the services that are known already. */
export function profilesCommand(context: CliContext): Command {
  const list = new Command('list')
    .description('list the profiles that come with content-sync, and what each was tried with')
    .option('--json', 'print one JSON object per profile on stdout')
    .action((options: { json?: true }) => {
      const entries = packagedProfiles().map(entryOf);
      if (options.json === true) for (const entry of entries) print(context, entry);
      else print(context, textOf(entries));
    });
  const show = new Command('show')
    .description('print a profile as it is, to read it or to start your own from it')
    .argument('<name>', 'its name, as `list` shows it')
    .action((name: string) => {
      context.stdout.write(readFileSync(profilePath(known(name), ''), 'utf8'));
    });
  return new Command('profiles').addCommand(list).addCommand(show);
}

interface ProfileEntry {
  profile: string;
  title: string;
  /** Version that it was tried with; null if it was written from the documentation. */
  tried: string | null;
  resources: string[];
}

function entryOf(name: string): ProfileEntry {
  const { about, resources } = readPackagedProfile(name);
  return {
    profile: name,
    title: about?.title ?? '',
    tried: about?.tried ?? null,
    resources: Object.keys(resources),
  };
}

function textOf(entries: readonly ProfileEntry[]): string {
  const rows = entries.map(({ profile, title, tried, resources }) => [
    profile,
    title,
    tried === null ? 'from its documentation, not tried' : `tried with ${tried}`,
    resources.join(', '),
  ]);
  return alignedLines(rows).join('\n');
}

function known(name: string): string {
  const names = packagedProfiles();
  if (names.includes(name)) return name;
  throw new ConfigError('usage', `there is no profile "${name}"`, {
    hint: `there are ${names.join(', ')}`,
  });
}
